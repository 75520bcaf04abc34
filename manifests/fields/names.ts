/** What metadata.name may be. It is a file name, a segment of object keys and of paths, so neither `.` nor `..`. */
export const manifestNamePattern = "^(?!\\.{1,2}$)[A-Za-z0-9._-]+$";
export const manifestNameCharsMax = 128;

const pattern = new RegExp(manifestNamePattern);

/** Whether a manifest can have this name; to be asked before a name becomes part of a path or key. */
export function isManifestName(name: string): boolean {
  return name.length <= manifestNameCharsMax && pattern.test(name);
}
