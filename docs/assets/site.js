// A field above each table that may be filtered: it leaves the rows that share most with what is typed or pasted, where
// a rare word weighs more than a common one. Without scripts the tables are whole.
document.addEventListener("DOMContentLoaded", () => {
  for (const part of document.querySelectorAll("[data-filter]")) {
    const rows = [...part.querySelectorAll("tbody tr")];
    const texts = rows.map((row) => row.textContent.toLowerCase()).map((text) => text + "\n" + text.replace(/\s/g, ""));
    const field = document.createElement("input");
    const count = document.createElement("span");
    const narrow = () => {
      const scores = new Float64Array(rows.length);
      let whole = 0;
      for (const word of field.value.toLowerCase().split(/\s+/).filter(Boolean)) {
        const having = rows.map((_, at) => at).filter((at) => texts[at].includes(word));
        const weight = having.length ? Math.log((rows.length + 1) / having.length) : 1;
        having.forEach((at) => { scores[at] += weight; });
        whole += weight;
      }
      const most = Math.max(...scores);
      rows.forEach((row, at) => { row.hidden = whole > 0 && (most === 0 || scores[at] < most - 1e-9); });
      const left = rows.filter((row) => !row.hidden).length;
      count.textContent = `${left} of ${rows.length}${left && most < whole - 1e-9 ? ", the nearest" : ""}`;
    };
    field.type = "search";
    field.placeholder = part.dataset.filter;
    field.setAttribute("aria-label", part.dataset.filter);
    field.addEventListener("input", narrow);
    count.className = "filter-count";
    count.setAttribute("role", "status");
    const bar = document.createElement("div");
    bar.className = "filter";
    bar.append(field, count);
    part.before(bar);
    narrow();
  }
});

// Of a screen the copy button copies the commands alone.
document.addEventListener("click", (event) => {
  const button = event.target.closest(".language-console [data-clipboard-target]");
  if (!button) return;
  const lines = document.querySelector(button.dataset.clipboardTarget).textContent.split("\n");
  const commands = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
  button.dataset.clipboardText = commands.join("\n");
}, true);

// The theme gives its search dialog no name.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");

// What scrolls and holds nothing that takes the focus gets it itself, for the keyboard.
const scrollable = () => {
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap, .wide, .md-sidebar__scrollwrap, pre > code")) {
    const scrolls = part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight;
    const focused = [...part.querySelectorAll("a, button, input")].some((one) => one.offsetParent);
    if (scrolls && !focused) part.tabIndex = 0;
  }
};
addEventListener("load", scrollable);
addEventListener("resize", scrollable);
