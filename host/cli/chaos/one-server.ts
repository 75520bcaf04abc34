import type { KilledServer } from "./killed-server.ts";
import type { Target } from "./target.ts";

/** One server with a data directory of its own. Each strike kills it and starts it again. */
export class OneServer implements Target {
  readonly #server: KilledServer;
  readonly faults = { kill: 0 };

  constructor(server: KilledServer) {
    this.#server = server;
  }

  get url(): string {
    return this.#server.url;
  }

  set onCrash(report: (words: string) => void) {
    this.#server.onCrash = report;
  }

  start(): Promise<void> {
    return this.#server.start();
  }

  async strike(onStruck: () => void, onReady: () => void): Promise<void> {
    this.faults.kill++;
    onStruck();
    await this.#server.kill();
    await this.#server.start();
    onReady();
  }

  async settle(): Promise<void> {}

  end(): Promise<void> {
    return this.#server.kill();
  }
}
