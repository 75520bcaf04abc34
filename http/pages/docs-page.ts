// The HTML of the API reference: Swagger UI, and a form for the key where one is needed. Its script is docs.js.

/**
 * Returns the page. `needsKey` is true for a browser without credentials if the reference requires them. Paths are absolute, because the
 * page is served with and without a trailing slash.
 */
export function docsPage(needsKey: boolean): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>svc reference</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="stylesheet" href="/docs/page.css">
</head>
<body data-key="${needsKey ? "needed" : "open"}">
<form id="key-form" autocomplete="off" hidden>
<h1>The reference of this server needs a key</h1>
<p>Enter an API key or a token of this server. It stays in this tab until the tab is closed, and is sent only to this server.</p>
<p><label for="key">Key</label> <input id="key" type="password" autocomplete="off" spellcheck="false" autofocus> <button type="submit">Open</button></p>
</form>
<p id="said" role="status"></p>
<p id="key-in-use" hidden>This tab has a key, and uses it for trial requests. <button id="forget" type="button">Forget it</button></p>
<div id="reference"></div>
<noscript><p>The reference needs JavaScript. <code>/openapi.json</code> has the same as JSON.</p></noscript>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/docs.js"></script>
</body>
</html>
`;
}
