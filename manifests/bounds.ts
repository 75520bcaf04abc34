/** Bytes of a manifest's text. */
export const manifestBytesMax = 1024 * 1024;
/** Objects and lists within each other. */
export const depthMax = 64;
/** Members of all objects of a manifest together (decision 74). */
export const manifestMembersMax = 20_000;
