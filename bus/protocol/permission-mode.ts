/** What an agent may do in a conversation without being asked: as its manifest says, read only, edit files, or anything. */
export const permissionModes = ["default", "plan", "accept_edits", "bypass"] as const;

/** One of the modes. */
export type PermissionMode = (typeof permissionModes)[number];
