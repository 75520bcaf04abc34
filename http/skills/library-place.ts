import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { auditOp } from "../../governance/audit.ts";
import { hasScopes } from "../../governance/auth/scopes.ts";
import { ownerName, personalLibrary } from "../../governance/skills/catalog.ts";
import type { Librarian, SkillLibrary } from "../../governance/skills/library.ts";
import { isSkillName } from "../../governance/skills/skill-name.ts";
import { requestMs, type TenantStore } from "../../storage/store/store.ts";
import { type SkillVersionRow, skillVersion } from "../../storage/tables/skills.ts";
import type { HttpContext } from "../context.ts";
import { jsonText, type Reply } from "../exchange/reply.ts";
import { skillNameExample } from "../schemas/skill-library.ts";
import type { Tag } from "../tags.ts";

// What the routes of the skill library share. Those of a personal library have the same handlers, below /skill-library/~{library}.

/** The tag of the library. */
export const skillLibraryTag: Tag = {
  name: "Skill library",
  description: "Skills of the tenant, with versions, review and publication.",
};

/** The two kinds of libraries that routes act on. */
export type LibraryKind = "org" | "personal";

/** The name of a skill in a path. */
export const skillNameParam = Type.String({ description: "Name of the skill.", examples: [skillNameExample] });
/** The number of a version in a path. */
export const skillVersionParam = Type.String({ description: "Its number.", examples: ["0.1.0"] });

/** Where a request acts: the tenant's library, or that of a person. */
export interface LibraryPlace {
  readonly store: TenantStore;
  readonly library: string;
  readonly by: Librarian;
  readonly lib: SkillLibrary;
  readonly context: HttpContext;
}

/** The parameters of a path of the library. */
export type LibraryParams = { readonly library?: string; readonly name?: string; readonly version?: string };

/** Returns where the request acts. Other persons' libraries are not found, except that administrators may read them, which is audited. */
export async function placeOf(
  { library }: LibraryParams,
  principal: Principal,
  context: HttpContext,
  access: "read" | "write",
): Promise<LibraryPlace> {
  const store = context.store.tenant(principal.tenant_id);
  const { skillLibrary: lib } = context;
  const by = { sub: principal.sub, owner: "", agent: null };
  if (library === undefined) return { store, library: "", by, lib, context };
  const own = personalLibrary(principal);
  const wanted = library === "me" ? own : library;
  if (wanted === null) throw new SvcError("not_found");
  if (wanted === own) return { store, library: wanted, by: { ...by, owner: ownerName(principal) }, lib, context };
  const mayRead = access === "read" && hasScopes(principal, ["admin"]) && /^[0-9a-f]{16}$/.test(wanted);
  if (!mayRead) throw new SvcError("not_found");
  const event = { event_type: "personal_library_accessed", status: "ok", manifest_id: "" } as const;
  const audit = auditOp(store, context, { ...event, principal_subj: principal.sub, payload: { library: wanted } });
  await store.write([audit], requestMs);
  return { store, library: wanted, by, lib, context };
}

/** Identifies the version that a path names. Refuses with not_found for no name of a skill. */
export function idOf({ library }: LibraryPlace, { name = "", version = "" }: LibraryParams) {
  if (!isSkillName(name)) throw new SvcError("not_found");
  return { library, name, version };
}

/** Returns the version that a path names. */
export async function rowOf(place: LibraryPlace, params: LibraryParams): Promise<SkillVersionRow> {
  const row = await skillVersion(place.store, idOf(place, params));
  if (row === undefined) throw new SvcError("not_found");
  return row;
}

/** True if SVC_SKILLS_DIR or svc has a skill of the name that the tenant's one hides. */
export function shadows({ library, lib }: LibraryPlace, skill: string): boolean | Promise<boolean> {
  return library === "" && lib.isOfHost(skill);
}

/** Returns an answer. Its texts are those of the tenant, so credentials by their form alone are masked (decision 77). */
export function masked({ context }: Pick<LibraryPlace, "context">, status: number, body: object): Reply {
  return jsonText(context.mask.forms.jsonText(JSON.stringify(body)), status);
}

/** The parts of a declaration that the routes of one kind of library share. */
export function declarationOf(kind: LibraryKind) {
  const isOrg = kind === "org";
  return {
    base: isOrg ? "/skill-library" : "/skill-library/~{library}",
    whose: isOrg ? "" : " of a personal library",
    reads: ["skills:read"],
    writes: [isOrg ? "skills:write" : "skills:personal"],
    params: <P extends object>(more: P) =>
      Type.Object({
        ...(isOrg
          ? {}
          : { library: Type.String({ description: "`me`, or the digest of a library.", examples: ["me"] }) }),
        ...more,
      }),
  };
}
