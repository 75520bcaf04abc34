import { isScope } from "./api-keys.ts";
import { readIntegerField, readMap, readObject, readString, readStrings } from "./object-shape.ts";
import { readTenantId } from "./tenant-id.ts";

// The entries that admit people and workflows. Organisations, teams, accounts and repositories match by their numeric ids, because names
// can be registered again (decision 251).

/** What an entry grants. */
export interface Grant {
  readonly tenant: string;
  readonly scopes: readonly string[];
}

/** A team of an organisation, whose members get further scopes. */
export interface TeamGrant {
  readonly id: number;
  readonly scopes: readonly string[];
}

/** An organisation of the code host. */
export interface OrgGrant extends Grant {
  readonly name: string;
  readonly id: number;
  /** Only members of one of these teams are admitted; empty for all members. */
  readonly teams: readonly TeamGrant[];
  /** Workflows of its repositories that may get tokens. */
  readonly actions: readonly WorkflowGrant[];
}

/** An invited account of the code host. */
export interface InviteGrant extends Grant {
  readonly id: number;
}

/** An account of Google by its address, or all accounts of a domain as `@domain`. */
export interface AccountGrant extends Grant {
  readonly account: string;
}

/** A workflow of the code host; null fields match any value. */
export interface WorkflowGrant extends Grant {
  readonly repository_id: string | null;
  readonly repository_owner_id: string | null;
  readonly job_workflow_ref: string | null;
  readonly ref: string | null;
  readonly environment: string | null;
}

const idMax = Number.MAX_SAFE_INTEGER;

/** Reads SVC_GITHUB_ORGS: a map of organisation to {id, tenant, scopes, teams?, actions?}. */
export function readOrgs(document: unknown): readonly OrgGrant[] {
  return Object.entries(readMap(document, "the value")).map(([name, value]) => {
    if (!/^[A-Za-z0-9][A-Za-z0-9-]{0,38}$/.test(name)) throw new Error("a key must be the name of an organisation");
    const entry = readObject(value, name, ["id", "tenant", "scopes"], ["teams", "actions"]);
    const { teams = [], actions = [] } = entry;
    if (!Array.isArray(teams)) throw new Error(`${name}: teams must be a list of {id, scopes}`);
    if (!Array.isArray(actions)) throw new Error(`${name}: actions must be a list`);
    const id = readIntegerField(entry.id, `${name}: id`, 1, idMax);
    const grant = readGrant(entry, name);
    return {
      ...{ name, id, ...grant },
      teams: teams.map((team, index) => readTeam(team, `${name}: team ${index + 1}`)),
      actions: actions.map((value, index) => readOrgWorkflow(value, `${name}: action ${index + 1}`, id, grant.tenant)),
    };
  });
}

function readTeam(value: unknown, where: string): TeamGrant {
  const { id, scopes = [] } = readObject(value, where, ["id"], ["scopes"]);
  return { id: readIntegerField(id, `${where}: id`, 1, idMax), scopes: readScopes(scopes, where) };
}

/** Reads SVC_GITHUB_INVITES: a map of login to {id, tenant, scopes}. */
export function readInvites(document: unknown): readonly InviteGrant[] {
  return Object.entries(readMap(document, "the value")).map(([login, value]) => {
    const entry = readObject(value, login, ["id", "tenant", "scopes"]);
    return { id: readIntegerField(entry.id, `${login}: id`, 1, idMax), ...readGrant(entry, login) };
  });
}

/** Reads SVC_GOOGLE_ACCOUNTS: a map of address or @domain to {tenant, scopes}. */
export function readAccounts(document: unknown): readonly AccountGrant[] {
  return Object.entries(readMap(document, "the value")).map(([account, value], index) => {
    const where = `entry ${index + 1}`;
    if (!/^[^@\s]*@[^@\s]+\.[^@\s]+$/.test(account)) throw new Error(`${where}: a key must be an address or @domain`);
    return { account: account.toLowerCase(), ...readGrant(readObject(value, where, ["tenant", "scopes"]), where) };
  });
}

/** Reads SVC_GITHUB_ACTIONS_GRANTS: a list of {repository_id, repository_owner_id?, job_workflow_ref?, ref?, environment?, tenant, scopes}. */
export function readWorkflowGrants(document: unknown): readonly WorkflowGrant[] {
  if (!Array.isArray(document)) throw new Error("must be a list");
  return document.map((value, index) => {
    const where = `entry ${index + 1}`;
    const entry = readObject(value, where, ["repository_id", "tenant", "scopes"], ["repository_owner_id", ...compared]);
    const { repository_id, repository_owner_id } = entry;
    return {
      ...readCompared(entry, where),
      repository_id: readId(repository_id, `${where}: repository_id`),
      repository_owner_id:
        repository_owner_id === undefined ? null : readId(repository_owner_id, `${where}: repository_owner_id`),
      ...readGrant(entry, where),
    };
  });
}

const compared = ["job_workflow_ref", "ref", "environment"] as const;

/** Reads workflows of one organisation: {scopes, repository_id?, job_workflow_ref?, ref?, environment?}. */
function readOrgWorkflow(value: unknown, where: string, orgId: number, tenant: string): WorkflowGrant {
  const entry = readObject(value, where, ["scopes"], ["repository_id", ...compared]);
  const { repository_id } = entry;
  return {
    ...readCompared(entry, where),
    repository_id: repository_id === undefined ? null : readId(repository_id, `${where}: repository_id`),
    repository_owner_id: String(orgId),
    ...{ tenant, scopes: readScopes(entry.scopes, where) },
  };
}

function readCompared(entry: Record<string, unknown>, where: string) {
  const [job_workflow_ref, ref, environment] = compared.map((name) =>
    entry[name] === undefined ? null : readString(entry[name], `${where}: ${name}`),
  );
  return { job_workflow_ref: job_workflow_ref ?? null, ref: ref ?? null, environment: environment ?? null };
}

function readId(value: unknown, where: string): string {
  const id = typeof value === "string" ? Number(value) : value;
  return String(readIntegerField(id, where, 1, idMax));
}

function readGrant(entry: Record<string, unknown>, where: string): Grant {
  try {
    return { tenant: readTenantId(readString(entry.tenant, "tenant")), scopes: readScopes(entry.scopes, "scopes") };
  } catch (error) {
    throw new Error(`${where}: ${(error as Error).message}`);
  }
}

function readScopes(value: unknown, where: string): readonly string[] {
  const scopes = readStrings(value, where);
  if (!scopes.every(isScope)) throw new Error(`${where}: a scope is visible ASCII without commas and quotes`);
  return scopes;
}
