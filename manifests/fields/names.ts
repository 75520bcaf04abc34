/**
 * Pattern of metadata.name. The name is a file name and a segment of object keys and paths, so `.` and `..` are
 * excluded.
 */
export const manifestNamePattern = "^(?!\\.{1,2}$)[A-Za-z0-9._-]+$";
export const manifestNameCharsMax = 128;

const pattern = new RegExp(manifestNamePattern);

/** True if the text is a valid manifest name; check it before using a name in a path or key. */
export function isManifestName(name: string): boolean {
  return name.length <= manifestNameCharsMax && pattern.test(name);
}
