import type { Bus } from "../../bus/bus.ts";
import { outcomeOf } from "./outcome.ts";

/** Many asks of one sender. */
export interface Flood {
  readonly sender: string;
  readonly asks: number;
  /** The number of actors. */
  readonly keys: number;
  /** Sent in one turn of the event loop; the next ones follow when these are answered. */
  readonly burst: number;
}

export interface FloodResult {
  readonly answered: number;
  /** Answers to another question than the asked one. */
  readonly mistaken: number;
  /** Refusals by code. */
  readonly refused: Record<string, number>;
}

/** Asks echo actors and counts the answers. */
export async function flood(bus: Bus, { sender, asks, keys, burst }: Flood): Promise<FloodResult> {
  const refused: Record<string, number> = {};
  let answered = 0;
  let mistaken = 0;
  for (let sent = 0; sent < asks; sent += burst) {
    const size = Math.min(burst, asks - sent);
    const asked = Array.from({ length: size }, (_, index) => {
      const number = sent + index;
      return outcomeOf(bus.ask({ kind: "echo", key: `key ${number % keys}` }, "echo", { sender, number, delayMs: 0 }));
    });
    for (const [index, outcome] of (await Promise.all(asked)).entries())
      if ("refused" in outcome) refused[outcome.refused] = (refused[outcome.refused] ?? 0) + 1;
      else {
        answered++;
        if (outcome.answer.number !== sent + index || outcome.answer.sender !== sender) mistaken++;
      }
  }
  return { answered, mistaken, refused };
}
