import { deserialize, serialize } from "node:v8";
import type { EgressEvent } from "../../../governance/egress/outgoing.ts";
import type { EgressRoute } from "../../../governance/egress/route.ts";
import type { HostPort } from "../../../governance/settings/browser-settings.ts";
import type { PrivateTarget } from "../../../governance/settings/egress-targets.ts";
import type { BrowserOp } from "../../../manifests/sections/browser-tools.ts";
import type { ToolErrorCode } from "../tool.ts";

// What svc and the process that drives browsers send each other: a length and a value in V8's format.

/** One visit to a page. */
export interface Visit {
  readonly op: BrowserOp;
  readonly url: string;
  /** The origin in which the page must stay; null for any. */
  readonly origin: string | null;
  readonly isFullPage: boolean;
  /** The DevTools of the browser: a ws or wss URL, and headers. */
  readonly devTools: { readonly url: string; readonly headers: Readonly<Record<string, string>> };
  /** Where the browser reaches the proxy; null for the address that it listens on. */
  readonly proxy: HostPort | null;
  readonly targets: readonly PrivateTarget[];
  readonly allowHosts: readonly (readonly string[])[];
  readonly timeoutMs: number;
  readonly imageBytesMax: number;
}

/** The result of a visit. */
export type VisitOutcome = VisitResult | VisitFailure;

/** What the browser shows of a page. */
export interface VisitResult {
  /** The address of the page, after redirects. */
  readonly url: string;
  readonly status: number;
  /** `html` is converted to Markdown. */
  readonly kind: "html" | "text" | "image" | "pdf";
  readonly text: string;
  /** An image or a PDF file. */
  readonly bytes?: Uint8Array;
  /** Notes for the model about the result, such as a cut. */
  readonly notes: readonly string[];
}

/** Why there is no result, in words for the model. */
export interface VisitFailure {
  readonly error: ToolErrorCode;
  readonly text: string;
}

/** To the process. `start` comes first. */
export type Order =
  | { readonly kind: "start"; readonly bind: HostPort; readonly route: EgressRoute }
  | { readonly kind: "visit"; readonly id: string; readonly visit: Visit }
  | { readonly kind: "end"; readonly id: string };

/** From the process. */
export type Report =
  | { readonly kind: "event"; readonly id: string; readonly event: EgressEvent }
  | { readonly kind: "done"; readonly id: string; readonly outcome: VisitOutcome };

/** Where the process writes its reports. */
export const reportsFd = 3;

/** Max bytes of one message; more is a defect. */
const messageBytesMax = 64 * 1024 * 1024;

/** Returns a message as bytes. */
export function packed(message: Order | Report): Buffer {
  const body = serialize(message);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length);
  return Buffer.concat([length, body]);
}

/** Separates messages in a stream of bytes. */
export class Unpacker<M extends Order | Report> {
  readonly #take: (message: M) => void;
  #parts: Buffer[] = [];
  #length = 0;

  constructor(take: (message: M) => void) {
    this.#take = take;
  }

  /** Takes the next bytes. Throws if a message is too long. */
  push(bytes: Buffer): void {
    this.#parts.push(bytes);
    this.#length += bytes.length;
    for (;;) {
      const wanted = this.#length < 4 ? 4 : 4 + this.#head().readUInt32BE(0);
      if (wanted > messageBytesMax) throw new RangeError("the message is too long");
      if (this.#length < wanted || wanted === 4) return;
      const all = Buffer.concat(this.#parts);
      this.#parts = all.length > wanted ? [all.subarray(wanted)] : [];
      this.#length = all.length - wanted;
      this.#take(deserialize(all.subarray(4, wanted)) as M);
    }
  }

  #head(): Buffer {
    const [first] = this.#parts;
    if (first !== undefined && first.length >= 4) return first;
    this.#parts = [Buffer.concat(this.#parts)];
    return this.#parts[0] as Buffer;
  }
}
