// Before the first paint, so that no page flashes in the other theme.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("mercer-theme");
  } catch {
    // A browser that keeps nothing still has the system's theme.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
