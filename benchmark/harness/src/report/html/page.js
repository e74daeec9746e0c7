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
