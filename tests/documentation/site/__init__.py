"""The documentation site, made from the code: `mkdocs build --strict` (mkdocs.yml).

`docs/` is the site. Pages of the repository's root (README, CONTRIBUTING, examples) are added to it, and so is a page
for each check, each error message and each kind of GPU. In a page of `docs/`

    <!-- site: checks -->        is replaced by a list or a table that is made here
    <!-- from README.md: Start --> is replaced by that section of a file

and the name of a check, of an architecture or an error message between backquotes becomes a link to its page.
"""
