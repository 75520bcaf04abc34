import { deserialize, serialize } from "node:v8";
import { type Batch, protocolVersion } from "./envelope.ts";

// A batch as bytes, for carriers that take nothing else: the version of the protocol in two bytes, so that it can be read before
// anything that it decides about, and then V8's own form of the rest. What crosses the bus is plain data; a structured clone would
// make an empty shell of some other things, and a call on the same thread would hand them over.

const headBytes = 2;

/** The bytes of a batch. Throws at what is not plain data, naming its place: a defect of who has sent it. */
export function encodeBatch({ version, ack, bytes, items }: Batch): Uint8Array {
  checkPlain(items, "items");
  const rest = serialize([ack, bytes, items]);
  const encoded = Buffer.allocUnsafe(headBytes + rest.length);
  encoded.writeUInt16BE(version, 0);
  encoded.set(rest, headBytes);
  return encoded;
}

/** The batch that was encoded; one of another version of the protocol has its version and nothing else. */
export function decodeBatch(encoded: Uint8Array): Batch {
  const version = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength).readUInt16BE(0);
  if (version !== protocolVersion) return { version, ack: 0, bytes: 0, items: [] };
  const [ack, bytes, items] = deserialize(encoded.subarray(headBytes)) as [number, number, unknown[]];
  return { version, ack, bytes, items };
}

function checkPlain(value: unknown, path: string): void {
  switch (typeof value) {
    case "string":
    case "number":
    case "boolean":
    case "undefined":
      return;
    case "object":
      break;
    default:
      throw new TypeError(`${path} is a ${typeof value}, which cannot cross the bus`);
  }
  if (value === null || value instanceof Uint8Array) return;
  if (Array.isArray(value)) {
    for (const [index, each] of value.entries()) checkPlain(each, `${path}[${index}]`);
    return;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null)
    throw new TypeError(`${path} is a ${value.constructor.name}, which cannot cross the bus`);
  for (const [key, each] of Object.entries(value)) checkPlain(each, `${path}.${key}`);
}
