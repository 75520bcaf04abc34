// Binary files of a bundle: only known types, only under assets/, as padded base64, and with the bytes that their name promises.

const decodedBytesMax = 5 * 1024 * 1024;

/** Beginnings of the known types, as hexadecimal digits; a dot is any digit. */
const beginnings: Readonly<Record<string, RegExp>> = {
  png: /^89504e470d0a1a0a/,
  jpg: /^ffd8ff/,
  jpeg: /^ffd8ff/,
  gif: /^474946383[79]61/,
  webp: /^52494646.{8}57454250/,
  ico: /^00000100/,
  pdf: /^255044462d/,
  zip: /^504b(?:0304|0506|0708)/,
};

/** Media types of the known binary files, by extension. */
const mediaTypes: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  ico: "image/x-icon",
  pdf: "application/pdf",
  zip: "application/zip",
};

/** Returns the media type of a file: of its bytes if it is binary, else plain text. */
export function mediaTypeOf(path: string): string {
  const known = mediaTypes[extensionOf(path)];
  if (known !== undefined) return known;
  if (path.endsWith(".json")) return "application/json";
  return path.endsWith(".md") ? "text/markdown" : "text/plain";
}

/** True if the file is binary by its name: its content is base64. */
export function isBinaryPath(path: string): boolean {
  return Object.hasOwn(mediaTypes, extensionOf(path));
}

/** Returns why the content is no such binary file; null if it is. */
export function binaryFault(path: string, content: string): string | null {
  if (!path.startsWith("assets/")) return "binary files must be under assets/";
  if (content.length > Math.ceil(decodedBytesMax / 3) * 4) return `has more than ${decodedBytesMax} bytes`;
  const bytes = Buffer.from(content, "base64");
  if (bytes.toString("base64") !== content) return "must be valid padded base64";
  if (bytes.length > decodedBytesMax) return `has more than ${decodedBytesMax} bytes`;
  const beginning = beginnings[extensionOf(path)] as RegExp;
  return beginning.test(bytes.toString("hex", 0, 16)) ? null : "has other bytes than its name says";
}

function extensionOf(path: string): string {
  return path.slice(path.lastIndexOf(".") + 1).toLowerCase();
}
