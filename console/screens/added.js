/** The screens of plugins. The server writes this module anew if its plugins bring some. */
export const added = [];
