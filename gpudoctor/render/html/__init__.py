"""Pages: a report, or a fleet, as one HTML file that loads nothing from elsewhere."""
