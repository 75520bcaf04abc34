import { deserialize, serialize } from "node:v8";
import { type Batch, protocolVersion } from "./envelope.ts";

// The binary form of a batch, for transports that carry bytes. The protocol version comes first, in two bytes, so that
// it can be read before its format is known. The rest is in V8's serialization format. Messages are plain data:
// structured clone would turn other objects into empty ones, and a call within a thread would share them.

const headBytes = 2;

/** Encodes a batch. Throws at a value that is not plain data, with its path: a defect of the sender. */
export function encodeBatch({ version, ack, bytes, items }: Batch): Uint8Array {
  checkPlain(items, "items");
  const rest = serialize([ack, bytes, items]);
  const encoded = Buffer.allocUnsafe(headBytes + rest.length);
  encoded.writeUInt16BE(version, 0);
  encoded.set(rest, headBytes);
  return encoded;
}

/** Decodes a batch. For another protocol version than `expected` it returns the version only. */
export function decodeBatch(encoded: Uint8Array, expected = protocolVersion): Batch {
  const version = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength).readUInt16BE(0);
  if (version !== expected) return { version, ack: 0, bytes: 0, items: [] };
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
