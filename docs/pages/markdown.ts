// What the generated pages are written with.

/** Text as code; nothing for nothing. */
export function code(text: string): string {
  return text === "" ? "" : `\`${text}\``;
}

/** A table with its columns aligned, as the formatter has it. A cell is one line. */
export function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  const cells = [head, ...body].map((row) => row.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")));
  const widths = head.map((_, column) => Math.max(3, ...cells.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [top = [], ...rest] = cells;
  return [line(top), line(widths.map((width) => "-".repeat(width))), ...rest.map(line)].join("\n");
}
