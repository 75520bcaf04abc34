/** Permissions of an agent without an approval: as the manifest says, read only, edit files, or anything. */
export const permissionModes = ["default", "plan", "accept_edits", "bypass"] as const;

/** One of the modes. */
export type PermissionMode = (typeof permissionModes)[number];
