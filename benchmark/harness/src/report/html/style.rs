//! The looks and the behaviour of the page.

/// The style sheet.
pub(super) const CSS: &str = "
:root { --ink: #1c2430; --soft: #5b6675; --line: #dde2e9; --ground: #ffffff; --shade: #f5f7fa; --accent: #0072b2; }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; color: var(--ink); background: var(--ground);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif; }
.layout { display: grid; grid-template-columns: 250px minmax(0, 1fr); max-width: 1500px; margin: 0 auto; }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 24px 18px; border-right: 1px solid var(--line);
  font-size: 14px; }
nav ul { list-style: none; margin: 0 0 20px; padding: 0; }
nav li { margin: 3px 0; overflow-wrap: anywhere; }
nav li.inner { padding-left: 14px; }
nav a { color: var(--ink); text-decoration: none; }
nav a:hover { color: var(--accent); text-decoration: underline; }
nav h2 { font-size: 12px; text-transform: uppercase; letter-spacing: .06em; color: var(--soft); margin: 0 0 6px;
  border: 0; padding: 0; }
nav label { display: flex; gap: 8px; align-items: center; margin: 4px 0; cursor: pointer; overflow-wrap: anywhere; }
.swatch { flex: none; width: 14px; height: 4px; border-radius: 2px; }
main { padding: 28px 36px 80px; min-width: 0; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 21px; margin: 48px 0 12px; padding-top: 10px; border-top: 1px solid var(--line); }
h3 { font-size: 16px; margin: 26px 0 8px; }
p { margin: 8px 0; max-width: 900px; }
.lead, .note { color: var(--soft); }
.note { font-size: 13.5px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 6px 0; }
th, td { padding: 5px 12px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
table.text th, table.text td { text-align: left; white-space: normal; overflow-wrap: anywhere; vertical-align: top; }
th { font-weight: 600; color: var(--soft); background: var(--shade); }
td.best { font-weight: 700; }
td.better { font-weight: 700; color: #00734f; }
td.worse { font-weight: 700; color: #b13a00; }
details { margin: 10px 0; }
summary { cursor: pointer; font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 12px; }
figure { margin: 10px 0; min-width: 0; }
figcaption { font-weight: 600; font-size: 14px; }
figcaption span { display: block; font-weight: 400; color: var(--soft); font-size: 13px; }
.plot { width: 100%; height: 380px; }
svg.ranks { width: 100%; max-width: 760px; height: auto; }
pre { background: var(--shade); border: 1px solid var(--line); border-radius: 6px; padding: 12px 14px; overflow-x: auto;
  font-size: 13px; }
@media (max-width: 900px) {
  .layout { grid-template-columns: minmax(0, 1fr); }
  nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line); }
  main { padding: 20px 16px 60px; }
}
@media print { nav { display: none; } .layout { display: block; } }
";

/// Draws each plot when it comes into view, and shows and hides optimizers in all of them.
pub(super) const SCRIPT: &str = "
(() => {
  const hidden = new Set();
  const drawn = new Set();
  const visible = trace => hidden.has(trace.legendgroup) ? 'legendonly' : true;
  const draw = element => {
    if (drawn.has(element)) return;
    drawn.add(element);
    const plot = JSON.parse(document.getElementById(element.id + '-data').textContent);
    for (const trace of plot.data) trace.visible = visible(trace);
    Plotly.newPlot(element, plot.data, plot.layout, plot.config);
  };
  const plots = document.querySelectorAll('.plot');
  if ('IntersectionObserver' in window) {
    const observer = new IntersectionObserver(entries => {
      for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
    }, { rootMargin: '800px' });
    plots.forEach(element => observer.observe(element));
  } else {
    plots.forEach(draw);
  }
  window.addEventListener('beforeprint', () => plots.forEach(draw));
  for (const box of document.querySelectorAll('nav input[data-optimizer]')) {
    box.checked = true;
    box.addEventListener('change', () => {
      if (box.checked) hidden.delete(box.dataset.optimizer); else hidden.add(box.dataset.optimizer);
      for (const element of drawn) Plotly.restyle(element, { visible: element.data.map(visible) });
    });
  }
})();
";
