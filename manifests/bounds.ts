/** Max bytes of a manifest's text. */
export const manifestBytesMax = 1024 * 1024;
/** Max depth of nested objects and lists. */
export const depthMax = 64;
/** Max members of all objects of a manifest together (decision 74). */
export const manifestMembersMax = 20_000;
/** Max width and height of an image that a tool makes, in pixels. */
export const imageSideMax = 4096;
