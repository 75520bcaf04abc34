/** The requirement files that `npm run test:cluster` leaves out, with the reason. */
export const oneHostFiles: Readonly<Record<string, string>> = {
  "test/spec/browser-tools.test.ts":
    "the proxy for browsers listens at one address of a machine, and the two hosts of a test share the machine",
};
