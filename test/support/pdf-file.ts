import { deflateSync } from "node:zlib";

/** Returns a PDF file with a line of text on each page. */
export function pdfFile(
  lines: readonly string[],
  more: { readonly encrypt?: boolean; readonly bomb?: number } = {},
): Buffer {
  const objects: Buffer[] = [];
  const add = (...parts: (string | Buffer)[]): number => {
    objects.push(Buffer.concat(parts.map((part) => Buffer.from(part))));
    return objects.length;
  };
  add("<< /Type /Catalog /Pages 2 0 R >>");
  const kids = lines.map((_, at) => `${4 + 2 * at} 0 R`).join(" ");
  add(`<< /Type /Pages /Kids [${kids}] /Count ${lines.length} >>`);
  add("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>");
  for (const line of lines) {
    const content = objects.length + 2;
    add(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents ${content} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
    );
    const text = Buffer.from(`BT /F1 12 Tf 50 700 Td (${line}) Tj ET ${" ".repeat(more.bomb ?? 0)}`, "latin1");
    const packed = deflateSync(text);
    add(`<< /Length ${packed.length} /Filter /FlateDecode >>\nstream\n`, packed, "\nendstream");
  }
  const garbage = `<${"5a".repeat(32)}>`;
  const encrypt = more.encrypt
    ? ` /ID [<00> <00>] /Encrypt ${add(`<< /Filter /Standard /V 1 /R 2 /Length 40 /P -4 /O ${garbage} /U ${garbage} >>`)} 0 R`
    : "";
  let file = Buffer.from("%PDF-1.4\n");
  const offsets = objects.map((object, at) => {
    const offset = file.length;
    file = Buffer.concat([file, Buffer.from(`${at + 1} 0 obj\n`), object, Buffer.from("\nendobj\n")]);
    return offset;
  });
  const rows = offsets.map((offset) => `${String(offset).padStart(10, "0")} 00000 n \n`).join("");
  const size = objects.length + 1;
  const trailer = `xref\n0 ${size}\n0000000000 65535 f \n${rows}trailer\n<< /Size ${size} /Root 1 0 R${encrypt} >>\nstartxref\n${file.length}\n%%EOF\n`;
  return Buffer.concat([file, Buffer.from(trailer)]);
}
