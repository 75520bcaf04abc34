// Helpers that write the Markdown of the generated pages.

/** Returns the text as code, or an empty text for an empty one. */
export function code(text: string): string {
  return text === "" ? "" : `\`${text}\``;
}

/** Returns a table with aligned columns, as the formatter writes it. A cell is one line. */
export function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  const cells = [head, ...body].map((row) => row.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")));
  const widths = head.map((_, column) => Math.max(3, ...cells.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [top = [], ...rest] = cells;
  return [line(top), line(widths.map((width) => "-".repeat(width))), ...rest.map(line)].join("\n");
}
