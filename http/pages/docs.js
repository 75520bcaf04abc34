// The script of the API reference. It asks for a key if the server requires one, keeps it for this tab, and loads /openapi.json with it.
// Texts from the server or from a person enter the page as text, never as markup.

const keyName = "svc.key";
const page = document.body;
const form = document.querySelector("#key-form");
const field = document.querySelector("#key");
const said = document.querySelector("#said");
const inUse = document.querySelector("#key-in-use");

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void open(field.value.trim());
});
document.querySelector("#forget").addEventListener("click", () => {
  forget();
  window.location.reload();
});

const kept = recall();
if (kept === null && page.dataset.key === "needed") ask("");
else void open(kept);

/** Loads the reference with this key; null if no key is needed. */
async function open(key) {
  if (key !== null && !/^[\x21-\x7e]+$/.test(key)) {
    ask(key === "" ? "Enter a key." : "A key has only visible ASCII characters, and no blanks.");
    return;
  }
  said.textContent = "Loading the reference…";
  const headers = key === null ? {} : { authorization: `Bearer ${key}` };
  let answer;
  let body;
  try {
    answer = await fetch("/openapi.json", { headers });
    body = await answer.json();
  } catch {
    ask("The server does not answer. Try again when it runs.");
    return;
  }
  if (!answer.ok) {
    // Only a 401 proves the key wrong, so forget it; after other errors the key may still work.
    if (answer.status === 401) forget();
    ask(problemOf(answer, body));
    return;
  }
  if (key !== null) keep(key);
  show(body, key);
}

function show(spec, key) {
  form.hidden = true;
  said.textContent = "";
  inUse.hidden = key === null;
  // Without a validatorUrl of null, Swagger UI sends the address of the document to a service on the internet.
  const ui = SwaggerUIBundle({
    spec,
    dom_id: "#reference",
    deepLinking: true,
    validatorUrl: null,
    plugins: [{ fn: { resolveSubtree }, wrapComponents: { operations: byTag } }],
    onComplete: () => {
      // Trial requests use the same key.
      if (key !== null) ui.preauthorizeApiKey("bearer", key);
    },
  });
}

/**
 * Returns the part of the document at `path` without references. Swagger UI's own resolver reads the whole document for each part, which takes
 * seconds for a document of this size.
 */
async function resolveSubtree(spec, path) {
  return { spec: withoutReferences(at(spec, path), spec), errors: [] };
}

/** Replaces each reference by its target. No component contains itself. */
function withoutReferences(part, spec) {
  if (typeof part !== "object" || part === null) return part;
  if (Array.isArray(part)) return part.map((each) => withoutReferences(each, spec));
  if (part.$ref?.startsWith?.("#/components/")) return withoutReferences(at(spec, part.$ref.slice(2).split("/")), spec);
  return Object.fromEntries(Object.entries(part).map(([name, each]) => [name, withoutReferences(each, spec)]));
}

function at(spec, path) {
  return path.reduce((part, name) => part?.[name], spec);
}

/**
 * Returns a component that draws the operations of each tag as a list of their own. Swagger UI keeps only the visible part of a list of 150 or
 * more in the page, and the browser then finds no text of the rest.
 */
function byTag(Operations, { React }) {
  return (props) => {
    const all = props.specSelectors.taggedOperations();
    if (all.size === 0) return React.createElement(Operations, props);
    return all
      .keySeq()
      .toArray()
      .map((tag) => {
        const taggedOperations = () => all.filter((_operations, each) => each === tag);
        const specSelectors = { ...props.specSelectors, taggedOperations };
        return React.createElement(Operations, { ...props, key: tag, specSelectors });
      });
  };
}

function problemOf({ status, headers }, { error, reason, detail }) {
  if (status === 401) {
    const why = {
      missing_credentials: "The server wants a key.",
      invalid_api_key:
        "The server does not know this key. Check that all of it was copied, and that it was not revoked.",
      invalid_token: "The server does not accept this token. It may have expired, or be made for another server.",
    };
    return why[reason] ?? "The server does not accept this key.";
  }
  if (status === 403) return `The key may not read the reference: ${detail}.`;
  if (status === 429) return `Too many tries. Try again in ${headers.get("retry-after") ?? "some"} seconds.`;
  return `The server answers ${status} ${error ?? ""}. Try again later.`;
}

function ask(problem) {
  form.hidden = false;
  inUse.hidden = true;
  said.textContent = problem;
  field.focus();
}

// A browser may deny storage to pages; the page then asks for the key at each visit.

function recall() {
  try {
    return sessionStorage.getItem(keyName);
  } catch {
    return null;
  }
}

function keep(key) {
  try {
    sessionStorage.setItem(keyName, key);
  } catch {}
}

function forget() {
  try {
    sessionStorage.removeItem(keyName);
  } catch {}
}
