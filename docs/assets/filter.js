// A field above each table that may be filtered. Without scripts the tables are whole.
document.addEventListener("DOMContentLoaded", () => {
  const wanted = new URLSearchParams(location.search).get("filter") || "";
  for (const part of document.querySelectorAll("[data-filter]")) {
    const rows = [...part.querySelectorAll("tbody tr")];
    const texts = rows.map((row) => row.textContent.toLowerCase().replace(/\s+/g, " "));
    const field = document.createElement("input");
    const count = document.createElement("span");
    field.type = "search";
    field.placeholder = part.dataset.filter;
    field.setAttribute("aria-label", part.dataset.filter);
    count.className = "filter-count";
    count.setAttribute("role", "status");
    const narrow = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, at) => {
        row.hidden = !words.every((word) => texts[at].includes(word));
        shown += !row.hidden;
      });
      count.textContent = `${shown} of ${rows.length}`;
    };
    field.addEventListener("input", narrow);
    field.value = wanted;
    const bar = document.createElement("div");
    bar.className = "filter";
    bar.append(field, count);
    part.before(bar);
    narrow();
  }
});
