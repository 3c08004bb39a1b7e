// Model cards as elements: headings, paragraphs, lists, tables, code. Text stays text: nothing is parsed as HTML.

function inline(parent, text) {
  for (const part of text.split(/(\*\*[^*]+\*\*|`[^`]+`|\[[^\]]+\]\([^)\s]+\))/)) {
    const link = /^\[([^\]]+)\]\(([^)\s]+)\)$/.exec(part);
    if (/^\*\*.+\*\*$/.test(part)) append(parent, "strong", part.slice(2, -2));
    else if (/^`.+`$/.test(part)) append(parent, "code", part.slice(1, -1));
    else if (link && /^https?:/.test(link[2])) {
      const anchor = append(parent, "a", link[1]);
      Object.assign(anchor, { href: link[2], rel: "noreferrer", target: "_blank" });
    } else parent.append(link ? link[1] : part);
  }
  return parent;
}

function append(parent, name, text) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

function table(parent, rows) {
  const made = append(parent, "table");
  const cells = (row) => row.replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  for (const [index, row] of rows.entries()) {
    if (index === 1 && /^[|:\s-]+$/.test(row)) continue;
    const line = append(made, "tr");
    for (const cell of cells(row)) inline(append(line, index === 0 ? "th" : "td"), cell);
  }
}

/** A fragment with the card's elements. */
export function renderMarkdown(markdown) {
  const page = document.createDocumentFragment();
  const lines = markdown.replace(/^---\n[\s\S]*?\n---\n/, "").split("\n");
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    const take = (pattern) => {
      const taken = [];
      while (at < lines.length && pattern.test(lines[at])) taken.push(lines[at++].trim());
      return taken;
    };
    const heading = /^(#{1,4})\s+(.*)/.exec(line);
    if (heading) {
      inline(append(page, heading[1].length === 1 ? "h3" : "h4"), heading[2]);
      at++;
    } else if (line.startsWith("```")) {
      const start = ++at;
      while (at < lines.length && !lines[at].startsWith("```")) at++;
      append(append(page, "pre"), "code", lines.slice(start, at++).join("\n"));
    } else if (/^\s*\|/.test(line)) {
      table(page, take(/^\s*\|/));
    } else if (/^\s*[-*]\s+/.test(line)) {
      const list = append(page, "ul");
      while (at < lines.length && /^\s*[-*]\s+/.test(lines[at])) {
        const words = [lines[at++].replace(/^\s*[-*]\s+/, "")];
        const goesOn = (next) => /^\s{2,}\S/.test(next) && !/^\s*[-*]\s+/.test(next);
        while (at < lines.length && goesOn(lines[at])) words.push(lines[at++].trim());
        inline(append(list, "li"), words.join(" "));
      }
    } else if (!line.trim()) {
      at++;
    } else {
      inline(append(page, "p"), take(/^(?!\s*[|]|#{1,4}\s|```|\s*[-*]\s+)\s*\S/).join(" ") || lines[at++]);
    }
  }
  return page;
}
