import { crc32, deflateSync } from "node:zlib";

// The smallest images of each readable type, and lookalikes that are invalid.

/** A PNG of one pixel; with `size` one of so many bytes, padded after the pixel. */
export function png(size?: number): Buffer {
  const pixel = [
    chunk("IHDR", Buffer.from([0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0])),
    chunk("IDAT", deflateSync(Buffer.alloc(2))),
  ];
  const head = Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), ...pixel]);
  const end = chunk("IEND", Buffer.alloc(0));
  const filler =
    size === undefined ? Buffer.alloc(0) : chunk("teXt", Buffer.alloc(size - head.length - end.length - 12, 97));
  return Buffer.concat([head, filler, end]);
}

/** A PNG that claims to have this size, and has the bytes of one pixel. */
export function pngThatClaims(width: number, height: number): Buffer {
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0]);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  const signature = Buffer.from("89504e470d0a1a0a", "hex");
  const data = chunk("IDAT", deflateSync(Buffer.alloc(2)));
  return Buffer.concat([signature, chunk("IHDR", header), data, chunk("IEND", Buffer.alloc(0))]);
}

export const gif = Buffer.from("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "base64");
export const jpeg = Buffer.from("ffd8ffe000104a46494600010100000100010000ffd9", "hex");
export const webp = Buffer.from("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==", "base64");
export const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>');

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}
