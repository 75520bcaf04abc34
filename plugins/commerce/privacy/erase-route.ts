import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { hasScopes } from "../../../governance/auth/scopes.ts";
import { json } from "../../../http/exchange/reply.ts";
import { actorFails, route } from "../../../http/route.ts";
import { BrandQuery, shopOf } from "../brands/brand-rows.ts";
import { sessionKeysOf, shopKeyMissing } from "../storefront/session-keys.ts";

const Count = (description: string) => Type.Integer({ description, examples: [1] });

/** Erases a shopper. */
export const eraseCustomer = route({
  method: "DELETE",
  path: "/commerce/customers/{id}",
  summary: "Erases a shopper: its address in orders, attribution and audit, and its conversations.",
  tag: "commerce",
  access: "authenticated",
  params: Type.Object({
    id: Type.String({
      pattern: "^[^\\s@]{1,64}@[^\\s@]{1,189}$",
      description: "The e-mail address.",
      examples: ["ann@example.com"],
    }),
  }),
  query: Type.Object({ brand: BrandQuery }),
  reply: {
    description: "The numbers of erased rows. Orders keep their amounts.",
    schema: Type.Object({
      ok: Type.Boolean({ examples: [true] }),
      orders: Count("Orders that had the address."),
      threads: Count("Conversations that were deleted."),
      audit_rows: Count("Audit rows whose payload was erased."),
    }),
  },
  fails: ["missing_scopes", "not_found", "run_in_progress", "workspace_io_error", shopKeyMissing, ...actorFails],
  async handle({ params: { id }, query: { brand }, principal }, context) {
    if (!["brands:write", "b2b:write"].some((scope) => hasScopes(principal, [scope])))
      throw new SvcError("missing_scopes", { detail: "missing scopes: brands:write or b2b:write" });
    const { bus, env, settings, files, artifacts, log } = context;
    const store = await shopOf(principal.tenant_id, brand, context);
    const [key = ""] = await sessionKeysOf(settings, env);
    const { eraseBuyer } = await import("./erasure.ts");
    const erased = await eraseBuyer({ bus, store, key }, id.toLowerCase());
    // If the bytes of a deleted file cannot be deleted now, the sweep deletes them later.
    for (const stored of [files, artifacts])
      await stored
        .removeGone(store)
        .catch((err: unknown) => log.warn({ err }, "the files of an erased shopper could not be deleted"));
    return json({ ok: true, ...erased });
  },
});
