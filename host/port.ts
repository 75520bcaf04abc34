import { type AddressInfo, createServer } from "node:net";

/**
 * Returns the port, or a free one for 0. Rejects with the setting to change if the port cannot be used. Shared ports would also
 * admit another process, so the check comes first.
 */
export function probePort(host: string, port: number, setting = "SVC_PORT"): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", (error: NodeJS.ErrnoException) =>
      reject(new Error(unusable(error, host, port, setting), { cause: error })),
    );
    probe.listen({ host, port, exclusive: true }, () => {
      const free = (probe.address() as AddressInfo).port;
      probe.close(() => resolve(free));
    });
  });
}

/** Returns why the port cannot be used, with the setting to change. */
function unusable(error: NodeJS.ErrnoException, host: string, port: number, setting: string): string {
  if (error.code === "EADDRINUSE") return `port ${port} of ${host} is in use; set ${setting} to another`;
  if (error.code === "EACCES")
    return `port ${port} of ${host} needs more permissions than this user has; set ${setting} to another`;
  return `SVC_HOST: ${error.message}; it must be an address of this machine, without a port`;
}
