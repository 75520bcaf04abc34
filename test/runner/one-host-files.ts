/** The requirement files that `npm run test:cluster` leaves out, with the reason. */
export const oneHostFiles: Readonly<Record<string, string>> = {};
