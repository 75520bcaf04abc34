// Sets the theme before the first paint. A browser may deny storage; the page then follows the system.
try {
  const theme = localStorage.getItem("svc.theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch {}
