// The sections of the answer.
import * as charts from './charts.js';
import {button, element, facts, make, numbers, table, with_range} from './dom.js';
import * as text from './format.js';
import {timeline} from './timeline.js';

function section(id, title) {
  const all = element(id);
  charts.forget(all);
  all.replaceChildren(make('h2', title));
  all.hidden = false;
  return all;
}

export function hide(...ids) {
  for (const id of ids) element(id).hidden = true;
}

const old_price = price => price?.stale ? ` Its price is of ${price.as_of}: older than 90 days.` : '';

export function plans(name, answer, pick) {
  const all = section('plans', `Plans of ${name || 'the job'}`), count = answer.plans.length;
  all.append(make('p', `${answer.candidates_enumerated.toLocaleString('en')} candidates, ` +
      `${answer.candidates_simulated} simulated in ${text.seconds(answer.search_wall_s)}. ` +
      (answer.proven_gap > 0 ? `No plan is better than the first by more than ${text.percent(answer.proven_gap)}.`
                             : 'No plan is better than the first.'), 'faint'));
  if (count > 1) charts.pareto(all, answer.plans, pick);
  if (answer.plans.every(plan => plan.usd_per_million_tokens === null))
    all.append(make('p', 'No price of these machines is known: docs/prices.md says how to give one.', 'faint'));
  all.append(table(
      [['', ''], ['plan', 'text'], ['step', ''], ['tokens/s', ''], ['memory', ''],
       ['$/M tokens', ''], ['whole run', ''], ['runs in', 'text']],
      answer.plans.map((plan, i) => [
        button(String(i + 1), () => pick(i), `Show plan ${i + 1}`),
        with_range(text.cluster(plan.cluster), text.plan(plan)),
        with_range(text.seconds(plan.step_time_s), plan.step_time_interval_s && text.range(plan.step_time_interval_s)),
        with_range(Math.round(plan.tokens_per_s).toLocaleString('en'), `${text.percent(plan.mfu)} MFU`), text.bytes(plan.peak_memory_bytes),
        with_range(text.or(plan.usd_per_million_tokens, usd => text.usd(usd, 4)), plan.pareto && make('span', 'pareto', 'badge')),
        with_range(plan.total_tokens > 0 ? text.duration(plan.total_time_s) : '–', plan.total_usd && text.usd(plan.total_usd)),
        text.runs_in(plan.frameworks)])));
  show_first(all, 10);
  elsewhere(all, answer.elsewhere);
  all.append(rejected(answer));
}

// What a usual framework costs that can run none of these plans.
function elsewhere(parent, frameworks) {
  for (const each of frameworks)
    parent.append(make('p', each.plan === null ? `No plan for ${each.framework}: ${each.reason}.`
        : `Best that ${each.framework} can run: ${each.slower < 0 ? '' : '+'}${(100 * each.slower).toFixed(0)} % ` +
          `(${text.seconds(each.step_time_s)}, ${each.plan}).`, 'faint'));
}

// Of a long table the first rows, the others when asked for.
function show_first(parent, most) {
  const others = [...parent.querySelectorAll('tbody tr')].slice(most);
  if (others.length === 0) return;
  for (const row of others) row.hidden = true;
  const more = button(`Show ${others.length} more`, () => {
    for (const row of others) row.hidden = false;
    more.remove();
  });
  parent.append(more);
}

function rejected(answer) {
  const all = make('details');
  all.append(make('summary', 'Why others lost'),
      table([['reason', 'text'], ['plans', '']],
            answer.rejected.map(each => [each.reason, each.count.toLocaleString('en')])));
  return all;
}

// Of a job that nothing fits.
export function no_plan(answer) {
  const all = section('plans', 'No plan fits');
  all.append(rejected(answer));
}

export function mark(index) {
  element('plans').querySelectorAll('.wide')[0]?.querySelectorAll('tbody tr').forEach(
      (row, i) => row.setAttribute('aria-selected', i === index));
}

export function chosen(plan, step) {
  const all = section('chosen-plan', `${text.cluster(plan.cluster)}: ${text.plan(plan)}`);
  const free = step.memory_limit_bytes - step.peak_memory_bytes;
  all.append(numbers([
    ['step', text.seconds(step.step_time_s), text.range(step.step_time_interval_s)],
    ['tokens/s', Math.round(step.tokens_per_s).toLocaleString('en'), `${plan.gpus} GPUs`],
    ['MFU', text.percent(step.mfu), `${(step.model_flops_per_s_per_gpu / 1e12).toFixed(1)} TFLOP/s a GPU`],
    ['peak memory', text.bytes(step.peak_memory_bytes),
     step.fits ? `${text.bytes(free)} of ${text.bytes(step.memory_limit_bytes)} left` : 'does not fit'],
    ['cost', text.or(step.usd_per_hour, usd => text.usd(usd) + '/h'),
     text.or(step.usd_per_million_tokens, usd => text.usd(usd, 4) + ' per M tokens')],
    ...(step.whole_run ? [['whole run', text.duration(step.whole_run.time_s),
                           text.or(step.whole_run.usd, usd => text.usd(usd)) + (step.risk ? ', without failures' : '')]] : []),
  ]));
  const p = plan.parallelism, training = plan.training;
  all.append(facts([
    ['degrees', `pipeline ${p.pipeline} × tensor ${p.tensor} × data ${p.data}` + (p.context > 1 ? ` × context ${p.context}` : '') +
        (p.expert > 1 ? `, experts over ${p.expert}` : '')],
    ['batch', `${training.global_batch} sequences in micro-batches of ${training.micro_batch}`],
    ['sharding', p.zero_stage > 0 ? `ZeRO ${p.zero_stage}` : 'none'],
    ['precision', training.precision], ['recomputation', String(training.recompute)],
    ['waiting', `bubble ${text.percent(step.bubble_fraction)}, exposed communication ${text.seconds(step.exposed_communication_s)}`],
    ...(step.goodput === null ? [] : [['goodput', `${text.percent(step.goodput)}, a failure every ` +
        text.duration(step.cluster_mean_time_between_failures_s)]]),
    ...(step.price ? [['price', `${step.price.kind.replaceAll('_', ' ')}, ${step.price.region}, of ${step.price.as_of}.` + old_price(step.price)]] : []),
  ]));
}

export function memory(step) {
  const all = section('memory', 'Memory of a GPU');
  charts.memory(all, step.memory, step.memory_limit_bytes);
  const fullest = step.memory.reduce((a, b) => a.peak_bytes >= b.peak_bytes ? a : b);
  const most = (fullest.peak_tensors ?? []).slice(0, 5);
  all.append(make('h3', `Most of the peak on stage ${fullest.stage}, ${text.bytes(fullest.peak_bytes)}`),
      table([['tensor', 'text'], ['class', 'text'], ['how many', ''], ['together', '']],
            most.map(each => [each.name, each.class.replaceAll('_', ' '), String(each.count), text.bytes(each.bytes)])));
}

export function time(step, data) {
  const all = section('time', 'The step'), figure = make('figure');
  charts.times(all, step.stages);
  all.append(make('h3', 'Timeline'), figure);
  timeline(figure, data);
}

export function risk(step) {
  if (!step.risk) return hide('risk');
  const all = section('risk', 'What can go wrong'), it = step.risk;
  if (!it.finishes) {
    all.append(make('p', 'The run does not finish: failures throw it back faster than it gets on.'));
    return;
  }
  all.append(make('p', `${it.steps.toLocaleString('en')} steps, played ${it.runs.toLocaleString('en')} times with failures.`, 'faint'),
      numbers([
        ['time, P50', text.duration(it.wall_s.p50), `P10 ${text.duration(it.wall_s.p10)}, P90 ${text.duration(it.wall_s.p90)}`],
        ...(it.usd ? [['cost, P50', text.usd(it.usd.p50), `P10 ${text.usd(it.usd.p10)}, P90 ${text.usd(it.usd.p90)}`]] : []),
        ['failures in a run', it.failures.toFixed(1), `a checkpoint every ${it.every_steps} steps`]]));
  const [unit, size] = it.wall_s.p90 > 2 * 86400 ? ['days', 86400] : ['hours', 3600];
  charts.spread(all, `whole run (${unit})`, it.wall_s, 1 / size, text.duration);
  if (it.usd) charts.spread(all, 'whole run (US $)', it.usd, 1, text.usd);
  all.append(table([['cause', 'text'], ['failures in a run', ''], ['time lost', '']],
                   it.causes.map(each => [each.cause.replaceAll('_', ' '), each.failures.toFixed(2), text.duration(each.time_s)])));
}

const gpus_of = rung => `${text.cluster(rung)}, ${rung.gpus} GPU${rung.gpus > 1 ? 's' : ''}`;

// The rung that the answer recommends.
function best_rung({best, ladders}) {
  const of_machine = ladders.find(each => each.machine === best.machine);
  return of_machine.rungs[of_machine.stop];
}

// What the recommended rung takes and costs, in a sentence.
function rung_text(rung) {
  const interval = rung.step_time_interval_s, start = rung.start_s ?? 0, factor = (rung.total_time_s - start) / rung.step_time_s;
  if (!(rung.total_tokens > 0))
    return `${text.seconds(rung.step_time_s)} a step, ${text.or(rung.usd_per_million_tokens, usd => text.usd(usd, 4))} per M tokens`;
  return text.duration(rung.total_time_s) +
      (interval ? ` (${text.duration(start + interval[0] * factor)} to ${text.duration(start + interval[1] * factor)}, eight in ten)` : '') +
      `, ${text.or(rung.total_usd, usd => text.usd(usd))}`;
}

// The job's budget and deadline, as they were read, are lines of the chart.
export function ladder(answer) {
  const all = section('ladder', 'Where to stop');
  if (answer.best) {
    const best = answer.best, useful = best.useful_global_batch, rung = best_rung(answer);
    all.append(make('p', `Rent ${best.count} × ${best.machine}: ${rung_text(rung)}; ${text.plan(rung)}, runs in ` +
        `${text.runs_in(rung.frameworks)}. ${best.reason}`, 'reason'));
    if (useful) all.append(make('p', `A batch of about ${text.count(useful)} sequences learns best from so many tokens (DeepSeek LLM, 2024).`, 'faint'));
    elsewhere(all, best.elsewhere);
    all.append(make('h3', 'To run it, with the job file beside it'), make('pre', best.command, 'command'));
  } else {
    all.append(make('p', 'Nothing fits.', 'reason'));
  }
  charts.rungs(all, answer.ladders, answer);
  for (const each of answer.ladders) {
    all.append(make('h3', each.machine));
    charts.ladder(all, each.rungs);
    all.append(table(
        [['plan', 'text'], ['step', ''], ['tokens/s', ''], ['efficiency', ''], ['memory left', ''],
         ['$/M tokens', ''], ['whole run', ''], ['runs in', 'text']],
        each.rungs.map((rung, i) => rung.step_time_s === undefined
            ? [with_range(gpus_of(rung), rung.reason), ...Array(7).fill('')]
            : [with_range(gpus_of(rung), text.plan(rung)),
               with_range(text.seconds(rung.step_time_s), rung.step_time_interval_s && text.range(rung.step_time_interval_s)),
               with_range(Math.round(rung.tokens_per_s).toLocaleString('en'), `${text.percent(rung.mfu)} MFU`),
               with_range(text.percent(rung.efficiency), i === each.stop && make('span', 'stop here', 'badge')),
               text.bytes(rung.memory_limit_bytes - rung.peak_memory_bytes),
               text.or(rung.usd_per_million_tokens, usd => text.usd(usd, 4)),
               with_range(rung.total_tokens > 0 ? text.duration(rung.total_time_s) : '–', rung.total_usd && text.usd(rung.total_usd)),
               text.runs_in(rung.frameworks)])));
    if (answer.ladders.length > 1) all.append(make('p', each.reason));
  }
}

// Which inputs move the answer most, one at a time.
export function moves(answer) {
  const all = section('moves', 'What moves it'), key = answer.answer, base = answer[key];
  const [words, shown] = {usd: ['cost', text.usd], time_s: ['time', text.duration], tokens: ['tokens', text.count]}[key];
  const change = end => end[key] === null ? null : 100 * (end[key] / base - 1);
  const cell = end => with_range(end.value, change(end) === null ? 'not legal'
      : `${shown(end[key])} (${change(end) >= 0 ? '+' : ''}${change(end).toFixed(1)} %)`);
  all.append(make('p', `${text.plan(answer)} on ${text.cluster(answer)}: ${shown(base)}. One input at a time, the plan stays.`, 'faint'));
  charts.tornado(all, answer.inputs.map(each => ({name: each.input, low: change(each.low), high: change(each.high)})), words);
  all.append(table([['input', 'text'], ['low', ''], ['high', '']],
                   answer.inputs.map(each => [each.input, cell(each.low), cell(each.high)])));
}

function buttons(rows) {
  const all = make('div', '', 'buttons');
  for (const [name, act] of rows) all.append(button(name, act));
  return all;
}

// `frameworks`: buttons for those that can run the plan.
export function exports(rows, frameworks) {
  const all = section('exports', 'Take it with you'), files = make('div');
  files.id = 'settings';
  all.append(buttons(rows), make('h3', 'Start it with another framework'),
      frameworks.length > 0 ? buttons(frameworks) : make('p', 'None of the frameworks that meshwright knows can run this plan.', 'faint'), files);
}

// The files that start the plan with a framework; each can be read here and saved.
export function settings(framework, answer, save) {
  const all = element('settings');
  all.replaceChildren(make('h3', `Files for ${framework}`));
  for (const warning of answer.warnings) all.append(make('p', warning, 'faint'));
  for (const [name, content] of Object.entries(answer.contents)) {
    const file = make('details');
    file.append(make('summary', name), make('pre', content, 'command'), button(`Save ${name}`, () => save(name, content)));
    all.append(file);
  }
}
