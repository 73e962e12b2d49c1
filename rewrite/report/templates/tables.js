// Tables that are sorted by their heads, and that show their first rows until asked for more.

const FIRST_ROWS = 30;

function sortable(table) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (!head.textContent) return;
    const button = make("button", { type: "button" }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const isNumber = head.classList.contains("n");
      const last = head.getAttribute("aria-sort");
      const up = last ? last === "descending" : !isNumber;
      for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[column].textContent.trim();
      const compare = (a, b) => {
        const one = parseFloat(key(a)), two = parseFloat(key(b));
        if (!Number.isNaN(one) && !Number.isNaN(two) && one !== two) return one - two;
        return key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0;
      };
      const rows = [...body.rows].sort((a, b) => (up ? compare(a, b) : compare(b, a)));
      body.append(...rows);
      if (body.hasAttribute("data-short")) shorten(table);
    });
  });
}

function shorten(table) {
  const body = table.tBodies[0], rows = [...body.rows];
  if (rows.length <= FIRST_ROWS + 5) return;
  body.setAttribute("data-short", "");
  rows.forEach((row, number) => { row.hidden = number >= FIRST_ROWS; });
  if (table.tFoot) return;
  const button = make("button", { type: "button" }, `Show all ${rows.length} rows`);
  button.addEventListener("click", () => {
    body.removeAttribute("data-short");
    for (const row of body.rows) row.hidden = false;
    table.tFoot.remove();
  });
  table.append(make("tfoot", {}, make("tr", { class: "more" }, make("td", { colspan: rows[0].cells.length }, button))));
}

function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") target.open = true;
}
