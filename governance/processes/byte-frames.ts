/** Puts a header before bytes, for a child process that gets one frame. */
export function framed(header: object, bytes: Uint8Array): Buffer {
  const head = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  return Buffer.concat([length, head, bytes]);
}

/** Separates the header from the bytes. Throws if the text is not in this form. */
export function unframed<H>(frame: Buffer): { readonly header: H; readonly bytes: Buffer } {
  const start = 4 + frame.readUInt32BE(0);
  if (start > frame.length) throw new RangeError("the frame is cut");
  return { header: JSON.parse(frame.toString("utf8", 4, start)) as H, bytes: frame.subarray(start) };
}
