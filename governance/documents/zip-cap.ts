import { inflateRawSync } from "node:zlib";
import { entriesMax, inflatedBytesMax } from "./extract-work.ts";

const entryMark = 0x02014b50;
const localMark = 0x04034b50;
/** The end record has at most this length with its comment. */
const endBytesMax = 22 + 65_535;

/**
 * Inflates every entry of a zip file under a cap, before a library that has none reads it. Returns why the file is refused; null if
 * it is small enough.
 */
export function refusalOfZip(bytes: Buffer): string | null {
  const end = bytes.lastIndexOf(Buffer.from([0x50, 0x4b, 0x05, 0x06]));
  if (end < 0 || end < bytes.length - endBytesMax || end + 22 > bytes.length) return damaged;
  const count = bytes.readUInt16LE(end + 10);
  let at = bytes.readUInt32LE(end + 16);
  // A library looks for the directory elsewhere if the file is in the form ZIP64, has several disks, or has bytes before or behind
  // its directory. So the directory must end exactly where the end record begins.
  const isOneDisk = bytes.readUInt32LE(end + 4) === 0 && bytes.readUInt16LE(end + 8) === count;
  if (!isOneDisk || at + bytes.readUInt32LE(end + 12) !== end) return damaged;
  if (count > entriesMax) return `it has more than ${entriesMax} entries`;
  let left = inflatedBytesMax;
  for (let i = 0; i < count; i++) {
    if (at + 46 > bytes.length || bytes.readUInt32LE(at) !== entryMark) return damaged;
    const flags = bytes.readUInt16LE(at + 8);
    const method = bytes.readUInt16LE(at + 10);
    const packed = bytes.readUInt32LE(at + 20);
    const header = bytes.readUInt32LE(at + 42);
    if ((flags & 1) !== 0) return "it is encrypted";
    if (method !== 0 && method !== 8) return "it uses an unknown compression";
    if (header + 30 > bytes.length || bytes.readUInt32LE(header) !== localMark) return damaged;
    const from = header + 30 + bytes.readUInt16LE(header + 26) + bytes.readUInt16LE(header + 28);
    if (packed > bytes.length - from) return damaged;
    const size = sizeOf(bytes.subarray(from, from + packed), method, left);
    if (size === null) return `it has more than ${inflatedBytesMax} bytes when it is unpacked, or it is damaged`;
    left -= size;
    at += 46 + bytes.readUInt16LE(at + 28) + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
  // A library ignores the count and reads all entries of the directory.
  return at === end ? null : damaged;
}

const damaged = "it is damaged";

/** Null if the entry is larger than `max` or damaged. */
function sizeOf(packed: Buffer, method: number, max: number): number | null {
  if (method === 0) return packed.length <= max ? packed.length : null;
  try {
    return inflateRawSync(packed, { maxOutputLength: Math.max(1, max) }).length;
  } catch {
    return null;
  }
}
