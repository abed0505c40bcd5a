// The page: a job, questions about it, their answers.
import {ask, file, Refused} from './api.js';
import {element, make, save} from './dom.js';
import {Form} from './form.js';
import * as text from './format.js';
import {file_name, first_job, of_link, settled, to_link} from './job.js';
import * as show from './show.js';

const answers = ['plans', 'chosen-plan', 'memory', 'time', 'risk', 'exports', 'ladder', 'moves', 'problem', 'warnings', 'welcome'];
const form = new Form(job => history.replaceState(null, '', to_link(job)));
let searching = null;  // what aborts it

function say_wrong(error) {
  element('message').textContent = error.message;
  element('problem').hidden = false;
  if (!(error instanceof Refused) || !error.answer) return;
  if (error.answer.ladders) show.ladder(error.answer);
  else if (error.answer.rejected) show.no_plan(error.answer);
}

function warn(message) {
  element('warnings').append(make('p', message));
  element('warnings').hidden = false;
}

function show_progress(line) {
  if (line.warning) return warn(line.warning);
  const p = line.progress;
  element('doing').textContent = `${p.count} × ${p.machine}: ${p.candidates_enumerated.toLocaleString('en')} plans, ` +
      `${text.percent(p.bounded)} looked at, ${p.candidates_simulated} simulated` +
      (p.best_step_time_s === null ? '' : `, best step ${text.seconds(p.best_step_time_s)}`);
}

// One question at a time; `work` gets how to ask.
async function search(doing, work) {
  searching?.abort();
  const own = searching = new AbortController();
  element('warnings').replaceChildren();
  show.hide('problem', 'warnings', 'welcome');
  element('doing').textContent = doing;
  element('status').hidden = element('cancel').hidden = false;
  if (window.matchMedia('(max-width: 56rem)').matches) element('answer').scrollIntoView();
  document.body.dataset.state = 'searching';
  let state = 'done';
  try {
    await work({signal: own.signal, watch: show_progress});
  } catch (error) {
    state = own.signal.aborted ? 'cancelled' : 'failed';
    if (state === 'failed') say_wrong(error);
  }
  if (own !== searching) return;  // another one has begun
  searching = null;
  element('cancel').hidden = true;
  element('status').hidden = state !== 'cancelled';
  element('progress').hidden = state === 'cancelled';
  if (state === 'cancelled') element('doing').textContent = 'Cancelled.';
  document.body.dataset.state = state;
}

async function show_plan(job, answer, index, how) {
  const plan = answer.plans[index], own = settled(job, plan);
  show.mark(index);
  element('progress').hidden = false;
  element('doing').textContent = `simulating ${text.cluster(plan.cluster)}: ${text.plan(plan)}`;
  const [step, data] = await Promise.all([
    ask('simulate', own, how), file('timeline', own, how.signal).then(JSON.parse)]);
  show.chosen(plan, step);
  show.memory(step);
  show.time(step, data);
  show.risk(step);
  const name = file_name(job), save_json = (suffix, value) => save(name + suffix, JSON.stringify(value, null, 2) + '\n', 'application/json');
  const save_file = (command, suffix, type) => () => search('writing it', async ({signal}) =>
      save(name + suffix, await file(command, own, signal), type));
  const settings_of = framework => [`Settings of ${framework}`, () => search(`writing settings of ${framework}`, async how =>
      show.settings(framework, await ask(`export?for=${framework}`, own, how), (path, content) => save(path, content, 'text/plain')))];
  show.exports([
    ['Copy the link', copy_link],
    ['Job file', () => save_json('.json', job)],
    ['Job file with this plan', () => save_json('-planned.json', own)],
    ['Report (HTML)', save_file('report', '.html', 'text/html')],
    ['Timeline for Perfetto', save_file('trace', '-trace.json', 'application/json')],
    ['All plans (JSON)', () => save_json('-plans.json', answer)],
    ['This prediction (JSON)', () => save_json('-prediction.json', step)]],
               plan.frameworks.map(settings_of));
}

// Pages that did not come over TLS or from this computer have no clipboard.
async function copy_link(event) {
  const pressed = event.currentTarget;
  if (!navigator.clipboard) return void window.prompt('The link', location.href);
  await navigator.clipboard.writeText(location.href);
  pressed.textContent = 'Copied';
}

function plan() {
  const job = form.job;
  show.hide(...answers);
  element('progress').hidden = false;
  return search('searching', async how => {
    const answer = await ask('plan?top=20', job, how);
    show.plans(job.name, answer, index => search('simulating', how => show_plan(job, answer, index, how)));
    await show_plan(job, answer, 0, how);
  });
}

// Another question about the job: its answer has a section of its own.
function ask_too(doing, command, section, shown) {
  if (!form.is_complete()) return;
  const job = form.job;
  show.hide(section);
  element('progress').hidden = false;
  return search(doing, async how => shown(await ask(command, job, how)));
}

// From the link, or one to begin with.
function take_link() {
  try {
    form.show(of_link(location.hash) ?? first_job());
  } catch (error) {
    form.show(first_job());
    say_wrong(error);
  }
}

element('job').addEventListener('submit', event => {
  event.preventDefault();
  if (form.is_complete()) plan();
});
element('advise').addEventListener('click', () => ask_too('climbing the ladder', 'advise', 'ladder', show.ladder));
element('sensitivity').addEventListener('click', () => ask_too('turning one input after the other', 'sensitivity', 'moves', show.moves));
element('cancel').addEventListener('click', () => searching?.abort());
window.addEventListener('hashchange', take_link);

try {
  await form.fill_choices();
  take_link();
  document.body.dataset.state = 'ready';
} catch (error) {
  say_wrong(error);
}
