// Numbers as people read them; the units are those of the command line.

export function seconds(s) {
  if (s < 1e-3) return (s * 1e6).toFixed(1) + ' µs';
  if (s < 1) return (s * 1e3).toFixed(1) + ' ms';
  return s < 600 ? s.toFixed(3) + ' s' : s.toFixed(0) + ' s';
}
export function duration(s) {
  if (s >= 2 * 86400) return (s / 86400).toFixed(1) + ' days';
  return s >= 3600 ? (s / 3600).toFixed(1) + ' h' : seconds(s);
}
export function bytes(b) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (Math.abs(b) >= 1024 && unit < 4) b /= 1024, ++unit;
  return (unit ? b.toFixed(1) : b.toFixed(0)) + ' ' + units[unit];
}
export const percent = share => (100 * share).toFixed(1) + ' %';
export function count(n) {
  for (const [size, name] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M']])
    if (n >= size) return (n / size).toFixed(2) + ' ' + name;
  return Math.round(n).toLocaleString('en');
}
export function usd(value, digits = Math.abs(value) < 100 ? 2 : 0) {
  const text = Math.abs(value).toLocaleString('en', {minimumFractionDigits: digits, maximumFractionDigits: digits});
  return (value < 0 ? '-$' : '$') + text;
}
export const or = (value, show) => value === null || value === undefined ? '–' : show(value);
export const cluster = each => `${each.count}\u00a0×\u00a0${each.machine}`;

// The frameworks that can run a plan; meshwright's own engine runs every plan.
const short_names = {'megatron-lm': 'megatron', 'megatron-bridge': 'bridge', torchtitan: 'titan', accelerate: 'fsdp', sagemaker: 'smp'};
export const runs_in = names => names.length ? names.map(name => short_names[name] ?? name).join(' ') : 'meshwright';

// "1.857 to 2.061 s": the unit once where both have the same.
export function range(pair) {
  if (!pair) return 'no error is known';
  const [low, high] = pair.map(seconds), [number, unit] = low.split(' ');
  return (high.endsWith(' ' + unit) ? number : low) + ' to ' + high;
}

// What differs from the usual; an answer that says it itself goes before.
export function plan(each) {
  if (each.plan) return each.plan;
  const p = each.parallelism;
  let text = `p${p.pipeline} t${p.tensor} d${p.data} mb${each.training.micro_batch}`;
  if (p.context > 1) text += ` c${p.context}`;
  if (p.expert > 1) text += ` e${p.expert}`;
  if (p.virtual_stages > 1) text += ` v${p.virtual_stages}`;
  if (p.zero_stage > 0) text += ` zero${p.zero_stage}`;
  if (each.training.recompute && each.training.recompute !== 'none') text += ` ${each.training.recompute}`;
  return text;
}
