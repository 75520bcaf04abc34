import { orderedId } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { auditOp } from "../../governance/audit.ts";
import { itemsMax, readItems, readJsonLines } from "../../governance/evals/dataset-items.ts";
import { itemOfThread } from "../../governance/evals/item-of-thread.ts";
import { openEndpoint } from "../../governance/settings/webhook-endpoints.ts";
import {
  appendItems,
  type Continuous,
  type DatasetRow,
  datasetsPage,
  hasDatasets,
  removeDataset,
  storedDataset,
  takenItemId,
  writeDataset,
} from "../../storage/tables/eval-datasets.ts";
import { untilFirst } from "../../storage/tables/until-first.ts";
import type { HttpContext } from "../context.ts";
import { continuousFields, Dataset, datasetPieces, ListedDataset, listedDataset } from "../evals/eval-records.ts";
import { json, jsonText, type Reply } from "../exchange/reply.ts";
import { actorFails, bodyBytesDefault, route } from "../route.ts";
import { nullable } from "../schemas/common.ts";
import { eventIdExample } from "../schemas/example-values.ts";
import { evalsTag as tag } from "../tags.ts";
import { checkReadSuffix } from "../thread-id.ts";

/** Scopes of the routes that read. */
export const readScopes = ["eval:read"];
/** Scopes of the routes that write and run. */
export const writeScopes = ["eval:write"];

const namePattern = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/;
/** Max datasets of a tenant. */
const datasetsMax = 1_000;
/** Max bytes of the items in a list. */
const listedBytesMax = 256 * 1024;
const minuteMs = 60_000;

const DatasetParams = Type.Object({
  name: Type.String({ description: "1 to 128 of A-Z, a-z, 0-9, `.`, `_` and `-`.", examples: ["arithmetic"] }),
});

const items = Type.Array(Type.Unknown(), {
  maxItems: itemsMax,
  default: [],
  description: "Items {item_id?, user_input, rubric?}, at most 65,536 bytes each.",
  examples: [[{ item_id: "sum", user_input: "What is 6 * 7?", rubric: { contains: "42" } }]],
});
const jsonl = Type.Optional(
  Type.String({ maxLength: bodyBytesDefault, description: "The items as JSON Lines, instead of `items`." }),
);

const listDatasets = route({
  method: "GET",
  path: "/eval/datasets",
  summary: "The tenant's datasets by name.",
  tag,
  access: readScopes,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Datasets per page." }),
    cursor: Type.Optional(Type.String({ maxLength: 128, description: "`next_cursor` of the previous page." })),
  }),
  reply: {
    description: "`datasets` equals `items`. next_cursor is set if there are more.",
    schema: Type.Object({
      items: Type.Array(ListedDataset),
      datasets: Type.Array(ListedDataset),
      next_cursor: nullable(Type.String(), { examples: [null] }),
    }),
  },
  fails: ["storage_unavailable"],
  async handle({ query: { limit, cursor = "" }, principal }, { store, mask }) {
    const tenant = store.tenant(principal.tenant_id);
    const rows = await datasetsPage(tenant, cursor, limit + 1);
    const page = rows.slice(0, limit);
    let left = listedBytesMax;
    const texts: string[] = [];
    for (const row of page) {
      texts.push(await listedDataset(tenant, row, left, mask));
      if (row.bytes <= left) left -= row.bytes;
    }
    const next = rows.length > limit ? JSON.stringify(page.at(-1)?.name) : "null";
    const list = texts.join(",");
    return jsonText(`{"items":[${list}],"datasets":[${list}],"next_cursor":${next}}`);
  },
});

const getDataset = route({
  method: "GET",
  path: "/eval/datasets/{name}",
  summary: "One dataset with its items.",
  tag,
  access: readScopes,
  tenancy: [{ of: "eval_dataset" }],
  params: DatasetParams,
  reply: { description: "The dataset.", schema: Dataset },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params, principal }, context) {
    return shown(await datasetNamed(principal, params.name, context), principal, null, context);
  },
});

const putDataset = route({
  method: "PUT",
  path: "/eval/datasets/{name}",
  summary: "Creates or replaces a dataset with all its items.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "eval_dataset", body: () => ({ continuous: { manifest: "nobodys", every_minutes: 10 } }) }],
  params: DatasetParams,
  body: Type.Object(
    {
      description: Type.Optional(Type.String({ maxLength: 4_000, examples: ["Sums that every agent must know."] })),
      items: Type.Optional(items),
      jsonl,
      allow_effects: Type.Optional(
        Type.Boolean({
          description: "True: tools of an evaluated agent may spend and speak. Else such calls are denied.",
        }),
      ),
      continuous: Type.Optional(
        nullable(Type.Object(continuousFields, { additionalProperties: false }), { examples: [null] }),
      ),
    },
    { additionalProperties: false },
  ),
  reply: { description: "The dataset after the change, with warnings about its items.", schema: Dataset },
  fails: [
    ...(["eval_items_invalid", "too_many_eval_datasets", "storage_quota_exceeded", "conflict"] as const),
    ...(["unknown_manifest", "invalid_manifest", "auth_scheme_not_allowed", "missing_scopes"] as const),
    ...actorFails,
  ],
  async handle({ params: { name }, body, principal }, context) {
    if (!namePattern.test(name)) throw misfit("name", "is not 1 to 128 of A-Z, a-z, 0-9, `.`, `_` and `-`");
    const { store, env, settings } = context;
    const tenant = store.tenant(principal.tenant_id);
    const { continuous: asked = null, description = "", allow_effects = false } = body;
    const continuous = asked === null ? null : { min_score: null, webhooks: [], ...asked };
    if (continuous !== null) await checkContinuous(continuous, principal, context);
    const given = body.jsonl === undefined ? (body.items ?? []) : readJsonLines(body.jsonl);
    const { items, warnings } = readItems(given, () => orderedId(env));
    const { sub, scopes, scheme, issuer } = principal;
    const owner = { sub, scopes, scheme, issuer };
    const written = { name, description, allow_effects: allow_effects ? 1 : 0, continuous, owner };
    const now = env.now();
    await unlessConflict(env, async () => {
      const before = await storedDataset(tenant, name);
      if (before === undefined && (await hasDatasets(tenant, datasetsMax)))
        throw new SvcError("too_many_eval_datasets");
      const due_at = continuous === null ? null : dueAt(before, continuous, now);
      const ops = [savedOp(principal, name, items.length, context)];
      await writeDataset(tenant, before, written, items, { now, due_at, limit: settings.tenantStoredBytes, ops });
    });
    return shown(await datasetNamed(principal, name, context), principal, warnings, context);
  },
});

const postItems = route({
  method: "POST",
  path: "/eval/datasets/{name}/items",
  summary: "Adds items to a dataset: given ones, or one from a turn of a thread.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "eval_dataset" }, { of: "thread", body: (id) => ({ thread_id: id, event_id: "0".repeat(32) }) }],
  params: DatasetParams,
  body: Type.Object(
    {
      items: { ...items, examples: [[{ user_input: "What is 6 * 7?", rubric: { contains: "42" } }]] },
      jsonl,
      thread_id: Type.Optional(
        Type.String({ description: "The suffix of a thread whose turn becomes an item.", examples: ["tour"] }),
      ),
      event_id: Type.Optional(
        Type.String({ description: "The reply, or the user's message, of that turn.", examples: [eventIdExample] }),
      ),
      item_id: Type.Optional(Type.String({ description: "With thread_id: the id of the item." })),
      rubric: Type.Optional(
        Type.Unsafe<Record<string, unknown>>({
          ...{ type: "object", additionalProperties: true },
          description: "With thread_id: the rubric. Without one, a rated reply becomes the criteria of a judge.",
        }),
      ),
    },
    {
      additionalProperties: false,
      examples: [{ items: [{ user_input: "What is 6 * 7?", rubric: { contains: "42" } }] }],
    },
  ),
  reply: {
    description: "The added items.",
    schema: Type.Object({
      status: Type.Literal("added"),
      item_ids: Type.Array(Type.String(), { examples: [["0199c1e7a5b2d4806a1c3e5f70918273"]] }),
      item_count: Type.Integer({ description: "Items of the dataset now.", examples: [2] }),
      warnings: Type.Array(Type.String(), { examples: [[]] }),
    }),
  },
  fails: [
    ...(["not_found", "eval_items_invalid", "storage_quota_exceeded", "conflict"] as const),
    ...(["invalid_thread_id", "unknown_thread", "unknown_event_id", "storage_unavailable"] as const),
  ],
  async handle({ params: { name }, body, principal }, context) {
    const { store, env, settings } = context;
    const tenant = store.tenant(principal.tenant_id);
    await datasetNamed(principal, name, context);
    const { thread_id, event_id, item_id, rubric } = body;
    const given = body.jsonl === undefined ? [...body.items] : readJsonLines(body.jsonl);
    if (thread_id !== undefined) {
      if (event_id === undefined) throw misfit("event_id", "is missing");
      const item = await itemOfThread(tenant, checkReadSuffix(thread_id), event_id, rubric);
      given.push({ ...item, ...(item_id !== undefined && { item_id }) });
    }
    if (given.length === 0) throw misfit("items", "is empty: send items, jsonl, or thread_id and event_id");
    let added = 0;
    const { items, warnings } = await unlessConflict(env, async () => {
      const dataset = await datasetNamed(principal, name, context);
      const read = readItems(given, () => orderedId(env), dataset.item_count);
      const ids = read.items.map(({ item_id: id }) => id);
      const taken = await takenItemId(tenant, name, ids);
      if (taken !== null) throw itemIsTaken(taken);
      const ops = [savedOp(principal, name, dataset.item_count + read.items.length, context)];
      await appendItems(tenant, dataset, read.items, { now: env.now(), limit: settings.tenantStoredBytes, ops });
      added = dataset.item_count + read.items.length;
      return read;
    });
    return json({ status: "added", item_ids: items.map(({ item_id: id }) => id), item_count: added, warnings });
  },
});

const deleteDataset = route({
  method: "DELETE",
  path: "/eval/datasets/{name}",
  summary: "Deletes a dataset. Its runs stay.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "eval_dataset" }],
  params: DatasetParams,
  reply: { description: "It is gone.", schema: Type.Object({ status: Type.Literal("deleted") }) },
  fails: ["not_found", "conflict", "storage_unavailable"],
  async handle({ params: { name }, principal }, context) {
    const tenant = context.store.tenant(principal.tenant_id);
    await unlessConflict(context.env, async () => {
      const dataset = await datasetNamed(principal, name, context);
      await removeDataset(tenant, dataset, [auditedOp("eval_dataset_deleted", principal, { dataset: name }, context)]);
    });
    return json({ status: "deleted" });
  },
});

/** Repeats a change that another one has overtaken. Refuses with conflict if it loses each time. */
async function unlessConflict<T>(env: HttpContext["env"], change: () => Promise<T>): Promise<T> {
  const done = await untilFirst(env, async () => {
    try {
      return { value: await change() };
    } catch (error) {
      if (error instanceof SvcError && error.code === "conflict") return null;
      throw error;
    }
  });
  if (done === null) throw new SvcError("conflict");
  return done.value;
}

async function datasetNamed({ tenant_id }: Principal, name: string, { store }: HttpContext): Promise<DatasetRow> {
  const dataset = namePattern.test(name) ? await storedDataset(store.tenant(tenant_id), name) : undefined;
  if (dataset === undefined) throw new SvcError("not_found");
  return dataset;
}

function shown(
  dataset: DatasetRow,
  { tenant_id }: Principal,
  warnings: readonly string[] | null,
  { store, mask }: HttpContext,
): Reply {
  const pieces = datasetPieces(store.tenant(tenant_id), dataset, warnings, mask);
  return { kind: "pieces", contentType: "application/json", pieces };
}

/** Refuses a manifest that the caller may not use, and endpoints that the tenant does not have. */
async function checkContinuous(
  { manifest, webhooks }: Continuous,
  principal: Principal,
  { bus, settings }: HttpContext,
): Promise<void> {
  const unknown = webhooks.find((id) => openEndpoint(settings.webhookEndpoints, id, principal.tenant_id) === null);
  if (unknown !== undefined) throw misfit("continuous", `names an unknown endpoint: ${unknown}`);
  await bus.ask({ kind: "manifests", key: principal.tenant_id }, "admit", { name: manifest, principal, tool: null });
}

/** An unchanged schedule keeps its due time, so that a due run is not lost. */
function dueAt(before: DatasetRow | undefined, { manifest, every_minutes }: Continuous, now: number): number {
  const same = before?.continuous?.manifest === manifest && before.continuous.every_minutes === every_minutes;
  return (same ? before?.due_at : null) ?? now + every_minutes * minuteMs;
}

function itemIsTaken(id: string): SvcError {
  const errors = [`item_id ${JSON.stringify(id)} exists in the dataset`];
  return new SvcError("eval_items_invalid", { detail: { code: "eval_items_invalid", errors, warnings: [] } });
}

function savedOp(principal: Principal, dataset: string, items: number, context: HttpContext) {
  return auditedOp("eval_dataset_saved", principal, { dataset, items }, context);
}

function auditedOp(
  event_type: "eval_dataset_saved" | "eval_dataset_deleted",
  { tenant_id, sub }: Principal,
  payload: Readonly<Record<string, unknown>>,
  { store, env, mask }: HttpContext,
) {
  const event = { event_type, status: "ok", manifest_id: "", principal_subj: sub, payload };
  return auditOp(store.tenant(tenant_id), { env, mask }, event);
}

function misfit(field: string, msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", field], msg: `${field} ${msg}`, type: "value" }] });
}

export const evalDatasetRoutes = [listDatasets, getDataset, putDataset, postItems, deleteDataset];
