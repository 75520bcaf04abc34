import { type PluginErrorCode, SvcError } from "../../../bus/errors.ts";
import { frame } from "../../../bus/frames/frames.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import type { HttpContext } from "../../../http/context.ts";
import type { Reply } from "../../../http/exchange/reply.ts";
import { clientAddress } from "../../../http/middleware/address-caller.ts";
import type { RouteRequest } from "../../../http/route.ts";
import { endOfTurn, startTurn, type TurnFields, type TurnStream } from "../../../http/streams/turns.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import type { FoundBrand } from "../brands/brand-table.ts";
import { noteOriginOp } from "../orders/sessions.ts";
import { sessionKeysOf } from "./session-keys.ts";
import { ShopFrames } from "./shop-frames.ts";
import { shopRateLimit, shopTotalRateLimit } from "./shop-settings.ts";
import { shopState } from "./shop-state.ts";
import { newThread, type ShopThread, shopperOf, verifiedThread } from "./shopper.ts";

// A turn of a shopper with the agent of a brand.

/** The brand has no agent, for example because its manifest was deleted. */
export const storefrontNotProvisioned: PluginErrorCode = {
  code: "storefront_not_provisioned",
  status: 404,
  help: "The brand has no agent.",
};
/** The agent failed. */
export const invocationFailed: PluginErrorCode = {
  code: "invocation_failed",
  status: 502,
  retryable: true,
  help: "The agent of the storefront failed.",
};

/** A thread without a turn for this time is over (decision 291). */
const idleMs = 30 * 24 * 60 * 60 * 1000;
/** Places in which a shopper chats. */
export const shopChannels = ["chat", "widget"] as const;
const sentenceCharsMax = 500;

/** The body of a shopper's turn. */
export interface ShopBody {
  readonly messages: readonly { readonly role: "user"; readonly content: string }[];
  readonly thread_id?: string | undefined;
  readonly channel: (typeof shopChannels)[number];
  readonly utm?: Readonly<Record<string, string>> | undefined;
}

type AnyRequest = RouteRequest<unknown, unknown, unknown>;

/** Spends one request of the address's share of a storefront, and one of the storefront. Refuses with rate_limited. */
export async function takeShopRate(
  { exchange }: Pick<AnyRequest, "exchange">,
  { brand_tenant }: FoundBrand,
  { rates, settings }: HttpContext,
): Promise<void> {
  const windowSeconds = settings.rateLimitWindowSeconds;
  const own = { limit: settingOf(settings, shopRateLimit), windowSeconds };
  await rates.takeOwn({ bucket: `shop/${brand_tenant}/${clientAddress(exchange, settings)}`, ...own });
  // One crowd must not use up the money of a brand.
  await rates.takeOwn({
    bucket: `shop/${brand_tenant}`,
    limit: settingOf(settings, shopTotalRateLimit),
    windowSeconds,
  });
}

/** Returns the thread that a shopper names, or a new one: for a missing or unsigned id, and after a month without a turn. */
export async function threadOf(
  given: string | undefined,
  brand: FoundBrand,
  context: HttpContext,
): Promise<ShopThread> {
  const { settings, store, env } = context;
  const keys = await sessionKeysOf(settings, env);
  const named = given === undefined ? null : verifiedThread(given, brand.brand_tenant, keys);
  if (named === null) return newThread(brand.brand_tenant, keys, env);
  const thread = await threadBySuffix(store.tenant(brand.brand_tenant), named.suffix);
  const isOver = thread !== undefined && thread.updated_at < env.now() - idleMs;
  return isOver ? newThread(brand.brand_tenant, keys, env) : named;
}

/** Runs a turn and returns the answer for the shopper. */
export async function answerShopTurn(
  request: RouteRequest<unknown, unknown, ShopBody>,
  brand: FoundBrand,
  context: HttpContext,
): Promise<object> {
  const turn = await shopTurn(request, brand, context, "chat");
  const { status, body } = await endOfTurn(...turn.asked).catch(refused);
  await turn.noteOrigin();
  const answer = JSON.parse(body) as Answer;
  if (status >= 400) throw failed(answer);
  const messages = (answer.messages ?? []).filter(isSpoken).map(({ role, content }) => ({ role, content }));
  const final = answer.final && { role: answer.final.role, content: answer.final.content };
  return { messages, final, thread_id: turn.thread.signed, ...(await turn.state()) };
}

/** Runs a turn and streams what a shopper may see of it. The first frame has the thread, the last ones cart and approvals. */
export async function streamShopTurn(
  request: RouteRequest<unknown, unknown, ShopBody>,
  brand: FoundBrand,
  context: HttpContext,
): Promise<Reply> {
  const turn = await shopTurn(request, brand, context, "chat_stream");
  const started = await startTurn(...turn.asked).catch(refused);
  await turn.noteOrigin();
  if (started.accepted.kind !== "started") throw new SvcError(storefrontNotProvisioned);
  return {
    kind: "stream",
    open(stream) {
      const shown = new ShopFrames();
      stream.write(frame("session", { thread_id: turn.thread.signed }, -1));
      const out: TurnStream = {
        onClose: (work) => stream.onClose(work),
        write: (text) => stream.write(shown.push(text)),
        end(text) {
          const rest = shown.push(text);
          const last = (state: object): string =>
            Object.entries(state)
              .map(([name, value]) => frame(name, { [name]: value }, -1))
              .join("");
          void turn.state().then(
            (state) => stream.end(rest + last(state) + shown.end()),
            (err: unknown) => {
              context.log.warn({ err, brand: brand.id }, "a stream of a shopper ends without its cart");
              stream.end(rest + shown.end());
            },
          );
        },
      };
      started.streamTo(out);
    },
  };
}

interface Answer {
  readonly messages?: readonly Spoken[];
  readonly final?: Spoken | null;
  readonly error?: unknown;
  readonly detail?: unknown;
}

interface Spoken {
  readonly role: string;
  readonly content: unknown;
}

/** True for a message that the shopper has seen: no results of tools, and no calls without a text. */
function isSpoken({ role, content }: Spoken): boolean {
  return (role === "user" || role === "assistant") && content !== "" && content !== null;
}

async function shopTurn(
  request: RouteRequest<unknown, unknown, ShopBody>,
  brand: FoundBrand,
  context: HttpContext,
  surface: "chat" | "chat_stream",
) {
  const { body } = request;
  await takeShopRate(request, brand, context);
  const thread = await threadOf(body.thread_id, brand, context);
  const tenant = context.store.tenant(brand.brand_tenant);
  const { channel, utm = {} } = body;
  const fields: TurnFields = {
    surface,
    manifest: brand.manifest,
    messages: body.messages,
    thread_suffix: thread.suffix,
    model: null,
    template: null,
    template_args: [],
    max_tokens: null,
    temperature: null,
    include_usage: false,
    response: null,
  };
  const principal = shopperOf(thread, brand.brand_tenant);
  const asked = [{ ...request, principal } as AnyRequest, fields, context] as const;
  return {
    thread,
    asked,
    state: () => readAgain(() => shopState(tenant, thread.suffix, context)),
    /** Stores where the shopper came from. The campaign of a later turn replaces that of the first; a turn without one keeps it. */
    async noteOrigin(): Promise<void> {
      if (thread.signed === body.thread_id && Object.keys(utm).length === 0) return;
      const threadId = `${brand.brand_tenant}:${thread.suffix}`;
      await tenant.write([noteOriginOp(tenant, threadId, { channel, utm, now: context.env.now() })]);
    },
  };
}

/** Max tries of a read at the end of a turn. Each waits as long as a busy store may take. */
const readsMax = 4;

/** Returns the result of a read that a busy store may refuse at first. */
export async function readAgain<T>(read: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++)
    try {
      return await read();
    } catch (error) {
      if (tries === readsMax || SvcError.from(error).code !== "storage_unavailable") throw error;
    }
}

/** Refuses as the storefront does, before the turn began. */
function refused(error: unknown): never {
  const refusal = SvcError.from(error);
  if (refusal.code === "unknown_manifest") throw new SvcError(storefrontNotProvisioned, {}, { cause: error });
  throw refusal;
}

/** Returns the refusal of a turn that began and failed. */
function failed({ error, detail }: Answer): SvcError {
  const words = [error, detail].find((word) => typeof word === "string") ?? "the turn failed";
  return new SvcError(invocationFailed, { message: String(words).slice(0, sentenceCharsMax) });
}
