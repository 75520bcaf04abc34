// The rows that a statement can reach, derived from its text: for the test that confines each statement to one tenant's
// rows.

/** A statement as a tree: words, signs and parameters, and the contents of parentheses. */
type Node = string | Node[];
type Nodes = readonly Node[];

/** A table, or its replacement, under its name in a block of a statement. */
interface Source {
  readonly name: string;
  /** The table's name; null for a subquery, which is checked by itself. */
  readonly table: string | null;
  /** True if its rows are bound to a tenant: by a parameter, or by another bound source. */
  isBound: boolean;
}

/** The known tables, and the parameters of the statement. */
interface Known {
  readonly tenantTables: ReadonlySet<string>;
  readonly isTenant: (parameter: string) => boolean;
  /** A statement of the service's own begins with rows of all tenants. */
  readonly isOfService: boolean;
}

/** Keys that no two tenants share: a row with the key of a tenant's row belongs to that tenant. */
const ownKeys: ReadonlySet<string> = new Set(["thread_key", "run_key", "event_key"]);
/** Words that end a list of sources, or conditions. */
const clauses: ReadonlySet<string> = new Set(
  "SELECT FROM WHERE GROUP ORDER LIMIT OFFSET HAVING RETURNING SET VALUES UNION JOIN LEFT CROSS ON DO".split(" "),
);
const notNames: ReadonlySet<string> = new Set([...clauses, "AS", "INDEXED", "USING"]);

/**
 * The tables whose rows a statement reads or changes unbound. A tenant's statement must bind them by the tenant; one of
 * the service, by rows found before. `tenantTables` have a tenant column, and `tenantAt` are the parameters with the
 * tenant.
 */
export function unboundTables(
  text: string,
  tenantTables: ReadonlySet<string>,
  tenantAt: readonly number[],
): readonly string[] {
  const marks = new Set(tenantAt.map((at) => `$${at + 1}`));
  const known = { tenantTables, isTenant: (name: string) => marks.has(name), isOfService: tenantAt.length === 0 };
  return look(parse(text), [], known);
}

/** Parameters are numbered as Postgres has them, in the other dialect too. */
function parse(text: string): Node[] {
  let parameters = 0;
  const open: Node[][] = [[]];
  for (const [token] of text.matchAll(/'(?:[^']|'')*'|\$\d+|[\w.]+|[<>!]=|<>|\|\||->>|\S/g)) {
    if (token === "(") open.push([]);
    else if (token === ")") {
      const inner = open.pop() as Node[];
      open.at(-1)?.push(inner);
    } else open.at(-1)?.push(token === "?" ? `$${++parameters}` : token);
  }
  if (open.length !== 1) throw new Error(`the parentheses of this statement do not match: ${text}`);
  return open[0] as Node[];
}

/** Checks every block of a query, or of a change. `around` are the sources of the enclosing block. */
function look(nodes: Nodes, around: readonly Source[], known: Known): string[] {
  return split(nodes, "UNION").flatMap((part) => lookAtBlock(part[0] === "ALL" ? part.slice(1) : part, around, known));
}

function lookAtBlock(nodes: Nodes, around: readonly Source[], known: Known): string[] {
  if (nodes[0] === "INSERT") return lookAtInsert(nodes, known);
  const sources = sourcesOf(nodes, known);
  const conditions = conditionsOf(nodes);
  const [first] = sources;
  if (first !== undefined && around.length === 0 && known.isOfService) first.isBound = true;
  for (let isOver = false; !isOver; ) {
    isOver = true;
    for (const condition of conditions)
      for (const source of sources)
        if (!source.isBound && binds(condition, source, sources, around, known)) {
          source.isBound = true;
          isOver = false;
        }
  }
  const unbound = sources.flatMap(({ isBound, table }) => (isBound || table === null ? [] : [table]));
  return [...unbound, ...inner(nodes, [...around, ...sources], known)];
}

/** The queries in a block. A subquery in the FROM clause does not see its neighbours. */
function inner(nodes: Nodes, around: readonly Source[], known: Known): string[] {
  return nodes.flatMap((node, at) => {
    if (typeof node === "string") return [];
    if (!isQuery(node)) return inner(node, around, known);
    const before = nodes[at - 1];
    const isSource = ["FROM", "JOIN", ",", "AS"].includes(before as string);
    if (isSource) return look(node, [], known);
    // Rows of a list belong to the tenants that the list names.
    const named = nodes[at - 2];
    const isNamed =
      before === "IN" && Array.isArray(named) && named[0] === "tenant_id" && column(node[1]) === "tenant_id";
    const isNamedByKey = before === "IN" && typeof named === "string" && named === node[1] && ownKeys.has(named);
    return look(node, isNamed || (isNamedByKey && known.isOfService) ? [] : around, known);
  });
}

/** An insert adds a row for the tenant, and replaces only rows of the tenant. */
function lookAtInsert(nodes: Nodes, known: Known): string[] {
  const at = nodes.indexOf("INTO") + 1;
  const table = nodes[at] as string;
  const names = nodes[at + 1] as Node[];
  const conflict = nodes.findIndex((node, i) => node === "CONFLICT" && nodes[i - 1] === "ON");
  const rest = nodes.slice(at + 2, conflict === -1 ? undefined : conflict - 1);
  const target = conflict === -1 ? null : nodes[conflict + 1];
  const found: string[] = [];
  if (known.tenantTables.has(table) && !known.isOfService) {
    const values = split(rest[0] === "VALUES" ? (rest[1] as Node[]) : until(rest.slice(1)), ",");
    const [tenant = ""] = values[split(names, ",").findIndex(([name]) => name === "tenant_id")] ?? [];
    const isForTenant = typeof tenant === "string" && (known.isTenant(tenant) || column(tenant) === "tenant_id");
    const isInPlaceOfOthers = Array.isArray(target) && !target.includes("tenant_id");
    if (!isForTenant || (isInPlaceOfOthers && !isOwnTenant(nodes.slice(conflict), table))) found.push(table);
  }
  const isSelect = rest[0] === "SELECT" || rest[0] === "WITH";
  return [...found, ...(isSelect ? look(rest, [], known) : inner(rest, [], known))];
}

/** True if a conflict changes only a row of its own tenant. */
function isOwnTenant(nodes: Nodes, table: string): boolean {
  const where = nodes.indexOf("WHERE");
  if (where === -1) return false;
  return and(until(nodes.slice(where + 1))).some(
    (condition) => condition.join(" ") === `${table}.tenant_id = excluded.tenant_id`,
  );
}

function sourcesOf(nodes: Nodes, known: Known): Source[] {
  const sources: Source[] = [];
  let isList = false;
  for (let at = 0; at < nodes.length; at++) {
    const node = nodes[at];
    if (node === "FROM" || node === "JOIN" || node === "UPDATE" || (node === "," && isList)) {
      isList = node === "FROM" || node === ",";
      const what = nodes[at + 1] as Node;
      const alias = nodes[at + 2] === "AS" ? nodes[at + 3] : nodes[at + 2];
      const isNamed = typeof alias === "string" && /^\w+$/.test(alias) && !notNames.has(alias);
      const table = typeof what === "string" ? what : null;
      const name = isNamed ? alias : (table ?? "");
      if (table === null) sources.push({ name, table, isBound: isBoundQuery(what as Node[], known) });
      else if (known.tenantTables.has(table)) sources.push({ name, table, isBound: false });
    } else if (typeof node === "string" && clauses.has(node)) isList = false;
  }
  return sources;
}

/** True if a query's result is made of one tenant's rows only. */
function isBoundQuery(nodes: Nodes, known: Known): boolean {
  if (known.isOfService || look(nodes, [], known).length > 0) return false;
  return split(nodes, "UNION").every((part) =>
    sourcesOf(part, known).some(({ table, isBound }) => table !== null || isBound),
  );
}

/** The conditions of each row of a block: of its WHERE, and of its joins. */
function conditionsOf(nodes: Nodes): Nodes[] {
  return nodes.flatMap((node, at) => {
    const isJoin = node === "ON" && nodes[at + 1] !== "CONFLICT";
    return node === "WHERE" || isJoin ? and(until(nodes.slice(at + 1))) : [];
  });
}

/** The nodes before the next clause. */
function until(nodes: Nodes): Nodes {
  const end = nodes.findIndex((node) => typeof node === "string" && clauses.has(node));
  return end === -1 ? nodes : nodes.slice(0, end);
}

/** The conditions that must all hold; none of an OR. */
function and(nodes: Nodes): Nodes[] {
  if (nodes.includes("OR")) return [];
  return split(nodes, "AND").flatMap((part) => {
    const [only] = part;
    return part.length === 1 && Array.isArray(only) && !isQuery(only) ? and(only) : [part];
  });
}

/** True if a condition binds the rows of a source. */
function binds(
  condition: Nodes,
  source: Source,
  sources: readonly Source[],
  around: readonly Source[],
  { isTenant }: Known,
): boolean {
  const at = condition.indexOf("=");
  if (at === -1) return false;
  const sides = [condition.slice(0, at), condition.slice(at + 1)].map((side) => side.filter((node) => node !== "+"));
  return [sides, sides.toReversed()].some(([own, other]) => {
    if (own?.length !== 1 || typeof own[0] !== "string" || typeof other?.[0] !== "string") return false;
    const [qualifier, named] = own[0].includes(".") ? own[0].split(".") : ["", own[0]];
    const isOwn = qualifier === "" ? sources.length === 1 : qualifier === source.name;
    if (!isOwn) return false;
    const value = other[0];
    // Rows of the service have an empty tenant.
    if (named === "tenant_id" && other.length === 1 && (isTenant(value) || value === "''")) return true;
    const [of, key] = value.split(".");
    const isTold = [...around, ...sources].some(({ name, isBound }) => name === of && isBound);
    if (!isTold) return false;
    if (named === "tenant_id") return key === "tenant_id" && other.length === 1;
    const isOfKey = other.length === 1 || (other.length === 3 && other[1] === "/" && key === "event_key");
    return ownKeys.has(named as string) && ownKeys.has(key as string) && isOfKey;
  });
}

/** A column's name without the table's. */
function column(node: Node | undefined): string {
  return typeof node === "string" ? node.slice(node.indexOf(".") + 1) : "";
}

function isQuery(nodes: Nodes): boolean {
  return nodes[0] === "SELECT" || nodes[0] === "WITH";
}

function split(nodes: Nodes, by: string): Nodes[] {
  const parts: Node[][] = [[]];
  for (const node of nodes) {
    if (node === by) parts.push([]);
    else parts.at(-1)?.push(node);
  }
  return parts;
}
