import { type AnyActorDefinition, defineActor } from "../../actors/runtime/define.ts";
import type { ChannelRef } from "../../bus/protocol/channel.ts";

/** An actor that receives numbered messages of many senders, so that loss, duplicates and disorder are seen. */
export interface EchoMessages {
  /** Returns its body; `delayMs` is how long the handler waits for its store. */
  echo: { body: Numbered; reply: Echoed };
  note: { body: Numbered };
  /** Asks another echo actor, from the node of this one. */
  relay: { body: Numbered & { readonly to: string }; reply: Echoed };
  /** Never answers. */
  hold: { body: Record<string, never>; reply: never };
  /** Sends a text over a channel, in this many pieces. */
  stream: { body: { readonly channel: ChannelRef; readonly text: string; readonly pieces: number }; reply: number };
}

export interface Numbered {
  readonly sender: string;
  readonly number: number;
  readonly delayMs: number;
}

export interface Echoed {
  readonly sender: string;
  readonly number: number;
  /** The number of numbered messages that this actor has handled, this one included. */
  readonly handled: number;
}

declare module "../../bus/protocol/kinds.ts" {
  interface Protocols {
    echo: EchoMessages;
  }
}

export interface EchoDeps {
  /** Called with every handled message; throws on a violation. */
  onHandled(key: string, message: Numbered): void;
}

/** The echo kind. */
export function echoActor(mailboxLimit: number): AnyActorDefinition {
  return defineActor<"echo", { handled: number }, EchoDeps>({
    kind: "echo",
    mailboxLimit,
    interleaves: [],
    reserved: [],
    passivateAfterMs: 60_000,
    load: () => ({ handled: 0 }),
    idle: () => true,
    crashed() {},
    on: {
      echo(state, message, { key, env, deps }) {
        const { sender, number, delayMs } = message;
        deps.onHandled(key, message);
        const answer = { sender, number, handled: ++state.handled };
        if (delayMs === 0) return answer;
        return new Promise((resolve) => env.timer(delayMs, () => resolve(answer)));
      },
      note(state, message, { key, deps }) {
        deps.onHandled(key, message);
        state.handled++;
      },
      relay(_state, { to, ...message }, { key, bus }) {
        return bus.ask(
          { kind: "echo", key: to },
          "echo",
          { ...message, sender: `${message.sender} by ${key}` },
          { prompt: true },
        );
      },
      hold: () => new Promise<never>(() => {}),
      stream(_state, { channel, text, pieces }, { bus }) {
        const sending = bus.channel(channel);
        const size = Math.max(1, Math.ceil(text.length / pieces));
        let sent = 0;
        do {
          sending.send(text.slice(sent, sent + size), sent + size >= text.length);
          sent += size;
        } while (sent < text.length);
        return text.length;
      },
    },
  });
}
