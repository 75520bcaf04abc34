import assert from "node:assert/strict";
import { test } from "node:test";
import { refusalOfZip } from "../../../governance/documents/zip-cap.ts";
import { zipFile } from "../../support/zip-file.ts";

const small = zipFile({ "a.txt": "a", "b.txt": "b" });
const endOf = (bytes: Buffer) => bytes.length - 22;

/** Returns the file with other bytes in its end record. */
function withEnd(change: (bytes: Buffer, end: number) => void): Buffer {
  const bytes = Buffer.from(small);
  change(bytes, endOf(bytes));
  return bytes;
}

/** Returns the file with bytes between its directory and its end record. */
function withGap(gap: Buffer): Buffer {
  return Buffer.concat([small.subarray(0, endOf(small)), gap, small.subarray(endOf(small))]);
}

/** An end record of ZIP64 and its locator. */
function zip64(): Buffer {
  const record = Buffer.alloc(56);
  record.writeUInt32LE(0x06064b50, 0);
  record.writeUInt32LE(44, 4);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeUInt32LE(endOf(small), 8);
  return Buffer.concat([record, locator]);
}

test("a zip file without a second directory is accepted", () => {
  assert.equal(refusalOfZip(small), null);
  assert.equal(refusalOfZip(zipFile({})), null);
});

test("a zip file whose entries another reader would find elsewhere is refused", () => {
  const cases: readonly (readonly [string, Buffer])[] = [
    ["a disk of ZIP64", withEnd((bytes, end) => bytes.writeUInt16LE(0xffff, end + 4))],
    ["a disk of the directory", withEnd((bytes, end) => bytes.writeUInt16LE(1, end + 6))],
    ["a count of ZIP64 on this disk", withEnd((bytes, end) => bytes.writeUInt16LE(0xffff, end + 8))],
    ["both counts of ZIP64", withEnd((bytes, end) => bytes.writeUInt32LE(0xffffffff, end + 8))],
    ["a size of ZIP64", withEnd((bytes, end) => bytes.writeUInt32LE(0xffffffff, end + 12))],
    ["an offset of ZIP64", withEnd((bytes, end) => bytes.writeUInt32LE(0xffffffff, end + 16))],
    ["a locator of ZIP64", withGap(zip64())],
    ["fewer entries in the counts", withEnd((bytes, end) => bytes.writeUInt32LE(0x0001_0001, end + 8))],
    ["no entries in the counts", withEnd((bytes, end) => bytes.writeUInt32LE(0, end + 8))],
    ["bytes before the file", Buffer.concat([Buffer.alloc(64), small])],
    ["bytes behind the directory", withGap(Buffer.alloc(8))],
  ];

  for (const [name, bytes] of cases) assert.match(refusalOfZip(bytes) ?? "", /damaged|2000 entries/, name);
});
