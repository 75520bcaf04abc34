import { Socket } from "node:net";

/** Makes every later connection of this process fail, for a process that works on files of strangers. */
export function refuseConnections(): void {
  Socket.prototype.connect = () => {
    throw new Error("this process opens no connections");
  };
}
