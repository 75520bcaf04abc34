import { connect, createServer, type Socket } from "node:net";

/** Passes the connections to a port of this machine on to a server, until they are cut. */
export class Relay {
  port = 0;
  readonly #target: { readonly host: string; readonly port: number };
  readonly #sockets = new Set<Socket>();
  readonly #listener = createServer((socket) => this.#pass(socket));
  #isCut = false;

  constructor(target: { readonly host: string; readonly port: number }) {
    this.#target = target;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#listener.once("error", reject).listen(0, "127.0.0.1", resolve);
    });
    this.port = (this.#listener.address() as { port: number }).port;
  }

  /** Ends every connection, and refuses new ones until `restore`. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  restore(): void {
    this.#isCut = false;
  }

  close(): void {
    this.cut();
    this.#listener.close();
  }

  #pass(near: Socket): void {
    if (this.#isCut) {
      near.destroy();
      return;
    }
    const far = connect(this.#target);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }
}
