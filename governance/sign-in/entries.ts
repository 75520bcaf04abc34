import type { Settings } from "../settings/settings.ts";
import type { Grant } from "../settings/sign-in-entries.ts";

/** What a provider's entries grant, with the names of these entries. A sign-in records the names (decision 246). */
export interface NamedGrant extends Grant {
  readonly entries: readonly string[];
}

type OrgEntry = Settings["githubOrgs"][number];
type InviteEntry = Settings["githubInvites"][number];
type AccountEntry = Settings["googleAccounts"][number];
type WorkflowEntry = Settings["githubActionsGrants"][number];

/** Returns what an organisation grants to a member of some of its teams; null if it admits members of certain teams only. */
export function orgGrant(
  { id, tenant, scopes, teams }: OrgEntry,
  isIn: (teamId: number) => boolean,
): NamedGrant | null {
  const own = teams.filter((team) => isIn(team.id));
  if (teams.length > 0 && own.length === 0) return null;
  const entries = [`org:${id}`, ...own.map((team) => teamEntry(id, team.id))];
  return { tenant, scopes: [...scopes, ...own.flatMap((team) => team.scopes)], entries };
}

/** Returns what an invitation grants. */
export function inviteGrant({ id, tenant, scopes }: InviteEntry): NamedGrant {
  return { tenant, scopes, entries: [`invite:${id}`] };
}

/** Returns what an account or domain of Google grants. */
export function accountGrant({ account, tenant, scopes }: AccountEntry): NamedGrant {
  return { tenant, scopes, entries: [`google:${account}`] };
}

/** Returns what a workflow grants. */
export function workflowGrant({ tenant, scopes, ...compared }: WorkflowEntry): NamedGrant {
  const { repository_id, repository_owner_id, job_workflow_ref, ref, environment } = compared;
  return {
    tenant,
    scopes,
    entries: [`actions:${JSON.stringify([repository_id, repository_owner_id, job_workflow_ref, ref, environment])}`],
  };
}

/** Returns the entries for workflows: those of the list, and those of organisations. */
export function workflowEntries({
  githubActionsGrants,
  githubOrgs,
}: Pick<Settings, "githubActionsGrants" | "githubOrgs">): readonly WorkflowEntry[] {
  return [...githubActionsGrants, ...githubOrgs.flatMap(({ actions }) => actions)];
}

/** Returns what the entries with these names grant at present. */
export function grantsOfEntries(
  entries: readonly string[],
  settings: Pick<Settings, "githubOrgs" | "githubInvites" | "googleAccounts" | "githubActionsGrants">,
): readonly NamedGrant[] {
  const named = new Set(entries);
  const orgs = settings.githubOrgs.flatMap((org) => orgGrant(org, (team) => named.has(teamEntry(org.id, team))) ?? []);
  const others = [
    ...settings.githubInvites.map(inviteGrant),
    ...settings.googleAccounts.map(accountGrant),
    ...workflowEntries(settings).map(workflowGrant),
  ];
  return [...orgs, ...others].filter((grant) => named.has(grant.entries[0] ?? ""));
}

function teamEntry(orgId: number, teamId: number): string {
  return `org:${orgId}/team:${teamId}`;
}
