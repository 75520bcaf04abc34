// Completion of a manifest in YAML by the schema of manifests: fields, and the values of a field that has few.

/** Loads the schema of manifests, which this server ships. */
export async function loadSchema() {
  const response = await fetch(new URL("../../../manifests/manifest.schema.json", import.meta.url));
  if (!response.ok) throw new Error(`the schema of manifests is ${response.status}`);
  return response.json();
}

/**
 * Returns what may stand before the cursor: `{from, options}` with the options `{label, kind, detail, info}`, or null. `before` is the text
 * up to the cursor.
 */
export function completionsAt(schema, before) {
  const lines = before.split("\n");
  const line = lines.at(-1) ?? "";
  const value = /^(\s*(?:- )*)([\w.-]+): +(\S*)$/.exec(line);
  if (value !== null) {
    const [, lead = "", key = "", word = ""] = value;
    return optionsOf(valuesOf(schemaAt(schema, [...pathOf(lines, lead), key])), before.length - word.length);
  }
  const field = /^(\s*(?:- )*)([\w.-]*)$/.exec(line);
  if (field === null) return null;
  const [, lead = "", word = ""] = field;
  const at = schemaAt(schema, pathOf(lines, lead));
  const { properties = {}, required = [] } = at;
  const fields = Object.entries(properties).map(([label, { type = "", description = "" }]) => ({
    label,
    kind: "property",
    detail: required.includes(label) ? `${type}, required` : String(type),
    info: description,
  }));
  return optionsOf(fields.length > 0 ? fields : valuesOf(at), before.length - word.length);
}

function optionsOf(options, from) {
  return options.length === 0 ? null : { from, options };
}

/** Returns the fields around the last line: names, and `[]` for an item of a list. `lead` are its blanks and dashes. */
function pathOf(lines, lead) {
  const path = [];
  let column = lead.length;
  // Each dash of the line itself begins an item of the list above it.
  for (let dash = lead.lastIndexOf("-"); dash !== -1; dash = lead.lastIndexOf("-", dash - 1)) {
    path.unshift("[]");
    column = dash;
    if (dash === 0) break;
  }
  let isItem = path.length > 0;
  for (let at = lines.length - 2; at >= 0; at--) {
    const match = /^( *)((?:- )*)([\w.-]+):/.exec(lines[at] ?? "");
    if (match === null) continue;
    const [, blanks = "", dashes = "", key = ""] = match;
    const own = blanks.length + dashes.length;
    // A list may begin in the column of its field.
    if (own < column || (isItem && own === column && dashes === "")) {
      path.unshift(key);
      isItem = false;
      column = own;
    }
    if (dashes !== "" && blanks.length < column && column <= own) {
      for (let dash = 0; dash < dashes.length; dash += 2) path.unshift("[]");
      isItem = true;
      column = blanks.length;
    }
    if (column === 0 && !isItem) break;
  }
  return path;
}

/** Returns the schema of a path, without fields if the manifest has no such path. */
function schemaAt(schema, path) {
  let found = schema;
  for (const part of path) {
    const { properties = {}, additionalProperties, items = {} } = found;
    if (part === "[]") found = items;
    else if (Object.hasOwn(properties, part)) found = properties[part];
    else found = typeof additionalProperties === "object" ? additionalProperties : {};
  }
  return found;
}

function valuesOf({ enum: values, type, default: usual, description = "" }) {
  const all = values ?? (type === "boolean" ? [true, false] : []);
  return all.map((each) => ({
    label: String(each),
    kind: "enum",
    detail: each === usual ? "default" : "",
    info: description,
  }));
}
