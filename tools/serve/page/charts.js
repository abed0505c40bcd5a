// The charts, drawn by Chart.js. Beside each stands a table or a sentence that says the same.
import * as show from './format.js';

const drawn = new Map();  // by canvas
const GiB = 2 ** 30;
const colours = ['#4c78a8', '#f58518', '#54a24b', '#e45756', '#eeca3b', '#72b7b2', '#b279a2', '#9d755d', '#bab0ac',
                 '#1f6feb', '#ff9da6', '#59a14f'];
const theme = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axis(title, more = {}) {
  return {title: {display: true, text: title, color: theme('--faint')}, ticks: {color: theme('--text')},
          grid: {color: theme('--line')}, ...more};
}

// A canvas of its own in `parent`, said in words for who cannot see it.
function draw(parent, height, words, config) {
  const box = document.createElement('div'), canvas = document.createElement('canvas');
  box.className = 'chart';
  box.style.height = height + 'px';
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', words);
  box.append(canvas);
  parent.append(box);
  const make = () => new Chart(canvas, config());
  drawn.set(canvas, {chart: make(), make});
}

// In the colours of the theme.
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const [canvas, each] of drawn) {
    each.chart.destroy();
    if (canvas.isConnected) each.chart = each.make();
    else drawn.delete(canvas);
  }
});

export function forget(parent) {
  for (const canvas of parent.querySelectorAll('canvas')) {
    drawn.get(canvas)?.chart.destroy();
    drawn.delete(canvas);
  }
}

const common = () => ({
  animation: false, responsive: true, maintainAspectRatio: false,
  plugins: {legend: {labels: {color: theme('--text'), boxWidth: 12}}},
});

// Whiskers: `of(i)` gives a point's range in the x axis.
const whiskers = of => ({
  id: 'whiskers',
  afterDatasetsDraw(chart) {
    const {ctx, scales: {x}, chartArea} = chart;
    chart.data.datasets.forEach((set, index) => chart.getDatasetMeta(index).data.forEach((point, i) => {
      const range = of(set.data[i]);
      if (!range) return;
      const left = Math.max(chartArea.left, x.getPixelForValue(range[0]));
      const right = Math.min(chartArea.right, x.getPixelForValue(range[1]));
      ctx.save();
      ctx.strokeStyle = theme('--faint');
      ctx.globalAlpha = 0.6;
      ctx.beginPath();
      ctx.moveTo(left, point.y);
      ctx.lineTo(right, point.y);
      ctx.stroke();
      ctx.restore();
    }));
  },
});

// A line at `value` of an axis, where the chart has that value.
const bound_line = (id, scale, value, words) => ({
  id,
  afterDatasetsDraw({ctx, scales, chartArea}) {
    const at = scales[scale].getPixelForValue(value);
    const inside = scale === 'x' ? at >= chartArea.left && at <= chartArea.right : at >= chartArea.top && at <= chartArea.bottom;
    if (!inside) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = theme('--bad');
    ctx.setLineDash([5, 4]);
    ctx.beginPath();
    ctx.moveTo(scale === 'x' ? at : chartArea.left, scale === 'x' ? chartArea.top : at);
    ctx.lineTo(scale === 'x' ? at : chartArea.right, scale === 'x' ? chartArea.bottom : at);
    ctx.stroke();
    if (scale === 'x') ctx.fillText(words, at + 4, chartArea.top + 10);
    else ctx.fillText(words, chartArea.left + 4, at - 4);
    ctx.restore();
  },
});

// Step time against cost of all plans; `pick(i)` when one is chosen.
export function pareto(parent, plans, pick) {
  const point = (each, i) => ({x: each.step_time_s, y: each.usd_per_million_tokens, i, range: each.step_time_interval_s});
  const points = plans.map(point).filter(each => each.y !== null);
  if (points.length === 0) return;
  const best = points.filter(each => plans[each.i].pareto).sort((a, b) => a.x - b.x);
  const others = points.filter(each => !plans[each.i].pareto);
  const words = `Step time against cost of ${points.length} plans; ${best.length} of them no other one beats in both. ` +
      'The table has the numbers.';
  draw(parent, 300, words, () => ({
    type: 'scatter',
    data: {datasets: [
      {label: 'no other plan is faster and cheaper', data: best, showLine: true, pointRadius: 6, pointHoverRadius: 8,
       backgroundColor: theme('--accent'), borderColor: theme('--accent'), borderWidth: 1.5},
      {label: 'other plans', data: others, pointRadius: 4.5, backgroundColor: theme('--faint')}]},
    options: {
      ...common(),
      scales: {x: axis('step (s); the lines: eight in ten steps', {grace: '8%'}),
               y: axis('US $ per million tokens', {grace: '15%'})},
      plugins: {...common().plugins, tooltip: {callbacks: {label: context => {
        const each = plans[context.raw.i];
        return `${show.cluster(each.cluster)}: ${show.plan(each)}, ${show.seconds(each.step_time_s)}, ` +
            `${show.usd(each.usd_per_million_tokens, 4)} per M tokens`;
      }}}},
      onClick: (_, found, chart) => found.length &&
          pick(chart.data.datasets[found[0].datasetIndex].data[found[0].index].i),
    },
    plugins: [whiskers(each => each.range)],
  }));
}

// Parts beside each other, a bar for each row: [{label, parts: {name: value}}].
export function bars(parent, rows, title, words, limit = null) {
  const names = [...new Set(rows.flatMap(row => Object.keys(row.parts)))].filter(
      name => rows.some(row => row.parts[name] > 0));
  draw(parent, 90 + 26 * rows.length, words, () => ({
    type: 'bar',
    data: {labels: rows.map(row => row.label), datasets: names.map((name, i) => (
      {label: name, data: rows.map(row => row.parts[name] ?? 0), backgroundColor: colours[i % colours.length]}))},
    options: {...common(), indexAxis: 'y',
              scales: {x: axis(title, {stacked: true, ...(limit && {suggestedMax: 1.2 * limit.value})}),
                       y: axis('', {stacked: true, title: {display: false}})}},
    plugins: limit ? [bound_line('limit', 'x', limit.value, limit.words)] : [],
  }));
}

export function memory(parent, stages, limit_bytes) {
  const rows = stages.map(stage => ({
    label: `stage ${stage.stage}`,
    parts: Object.fromEntries(Object.entries(stage).filter(([key]) => key.endsWith('_bytes') && key !== 'peak_bytes')
        .map(([key, value]) => [key.slice(0, -6).replaceAll('_', ' '), value / GiB])),
  }));
  bars(parent, rows, 'GiB of a GPU at its peak', `Memory by class of ${rows.length} stages; the limit is ` +
      show.bytes(limit_bytes), {value: limit_bytes / GiB, words: `limit ${show.bytes(limit_bytes)}`});
}

export function times(parent, stages) {
  const rows = stages.map(stage => ({
    label: `stage ${stage.stage}`,
    parts: {compute: stage.compute_s * 1e3, launch: stage.launch_s * 1e3,
            ...Object.fromEntries(Object.entries(stage.exposed_s).map(([group, s]) => [`waits for ${group}`, s * 1e3])),
            bubble: stage.bubble_s * 1e3, 'idle at the ends': stage.idle_s * 1e3},
  }));
  bars(parent, rows, 'ms of the step, one rank of each stage', `Where the time of the step goes, ${rows.length} stages`);
}

// From the 10th to the 90th percentile, the middle marked.
export function spread(parent, title, {p10, p50, p90}, scale, show_value) {
  draw(parent, 110, `${title}: P10 ${show_value(p10)}, P50 ${show_value(p50)}, P90 ${show_value(p90)}`, () => ({
    data: {labels: [''], datasets: [
      {type: 'scatter', label: 'P50', data: [{x: p50 * scale, y: ''}], pointStyle: 'rectRot', pointRadius: 7,
       backgroundColor: theme('--text')},
      {type: 'bar', label: 'P10 to P90', data: [[p10 * scale, p90 * scale]], backgroundColor: theme('--accent'),
       barThickness: 16}]},
    options: {...common(), indexAxis: 'y', scales: {x: axis(title, {beginAtZero: false, grace: '20%'}), y: {type: 'category', display: false, labels: ['']}},
              plugins: {...common().plugins, tooltip: {enabled: false}}},
  }));
}

// By how many per cent each input moves the answer: [{name, low, high}], null where the input is not legal.
export function tornado(parent, rows, words) {
  draw(parent, 80 + 26 * rows.length, `How much each input moves the ${words}; the table has the numbers`, () => ({
    type: 'bar',
    data: {labels: rows.map(row => row.name), datasets: [
      {label: 'input low', data: rows.map(row => row.low), backgroundColor: colours[0]},
      {label: 'input high', data: rows.map(row => row.high), backgroundColor: colours[1]}]},
    options: {...common(), indexAxis: 'y', grouped: false,
              scales: {x: axis(`change of the ${words} (%)`), y: axis('', {title: {display: false}})}},
  }));
}

// Hours against dollars of the whole run: every rung of every machine, with budget and deadline.
export function rungs(parent, ladders, {budget_usd, deadline_s}) {
  const sets = ladders.map(({machine, rungs, stop}) => ({
    machine,
    points: rungs.map((rung, i) => ({x: rung.total_time_s / 3600, y: rung.total_usd, rung, stop: i === stop}))
        .filter(each => each.rung.total_tokens > 0 && each.y !== null && each.y !== undefined),
  })).filter(each => each.points.length > 0);
  const count = sets.reduce((sum, each) => sum + each.points.length, 0);
  if (count < 2) return;
  const bounds = [];
  if (typeof budget_usd === 'number') bounds.push(bound_line('budget', 'y', budget_usd, `budget ${show.usd(budget_usd)}`));
  if (typeof deadline_s === 'number') bounds.push(bound_line('deadline', 'x', deadline_s / 3600, `deadline ${show.duration(deadline_s)}`));
  draw(parent, 320, `Hours against dollars of ${count} rungs on ${sets.length} machines; the tables have the numbers`, () => ({
    type: 'scatter',
    data: {datasets: sets.map(({machine, points}, i) => (
      {label: machine, data: points, showLine: true, borderWidth: 1, borderColor: colours[i % colours.length],
       backgroundColor: colours[i % colours.length], pointRadius: points.map(each => each.stop ? 8 : 4)}))},
    options: {
      ...common(),
      scales: {x: axis('hours of the whole run', {type: 'logarithmic'}), y: axis('US $ of the whole run', {grace: '10%'})},
      plugins: {...common().plugins, tooltip: {callbacks: {label: ({raw}) =>
          `${show.cluster(raw.rung)}, ${raw.rung.gpus} GPUs: ${show.duration(raw.rung.total_time_s)}, ${show.usd(raw.y)}`}}},
    },
    plugins: bounds,
  }));
}

// Tokens/s per GPU against the first rung's.
export function ladder(parent, rungs) {
  const shown = rungs.filter(rung => rung.step_time_s !== undefined);
  if (shown.length < 2) return;
  draw(parent, 230, `Efficiency from ${shown[0].gpus} to ${shown.at(-1).gpus} GPUs; the table has the numbers`, () => ({
    type: 'line',
    data: {labels: shown.map(rung => rung.gpus), datasets: [
      {label: 'efficiency against the first rung', data: shown.map(rung => 100 * rung.efficiency),
       borderColor: theme('--accent'), backgroundColor: theme('--accent')},
      {label: 'of the GPUs that the rung adds', data: shown.map(rung => 100 * rung.added_efficiency), borderDash: [5, 4],
       borderColor: theme('--faint'), backgroundColor: theme('--faint')}]},
    options: {...common(), scales: {x: axis('GPUs'), y: axis('efficiency (%)', {beginAtZero: true})}},
  }));
}
