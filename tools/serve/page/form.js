// The form and the job's text: two views of one job.
import {list} from './api.js';
import {bytes, usd} from './format.js';

const element = id => document.getElementById(id);
const pasted = 'pasted';

function option(value, text = value) {
  const each = document.createElement('option');
  each.value = value;
  each.textContent = text;
  return each;
}

const is_number = text => /^[0-9]+(\.[0-9]+)?$/.test(text);

// Numbers in people's words, such as 60B, stay words: jobs have them too, and the program reads them as on the command line.
function number_or_words(text) {
  return is_number(text.trim()) ? Number(text) : text.trim();
}

// A number alone means days. A date is counted from today, since jobs say how long.
function seconds_or_words(text) {
  const words = text.trim(), days = is_number(words) ? Number(words) : (Date.parse(words) - Date.parse(new Date().toISOString().slice(0, 10))) / 864e5;
  return is_number(words) || (/^\d{4}-\d\d-\d\d$/.test(words) && days > 0) ? days * 86400 : words;
}

function in_words(value) {
  const unit = typeof value === 'number' && [[1e12, 'T'], [1e9, 'B'], [1e6, 'M']].find(([size]) => value >= size && Number.isInteger(value / size * 1000));
  return unit ? value / unit[0] + unit[1] : String(value);
}

// Fields that are one key each; an empty one takes the key away.
const simple = [
  ['batch', 'training', 'global_batch', number_or_words],
  ['length', 'training', 'sequence_length', number_or_words],
  ['precision', 'training', 'precision', String],
  ['framework', 'training', 'framework', String],
  ['minimize', 'objective', 'minimize', String],
  ['tokens', 'objective', 'tokens', number_or_words, in_words],
  ['budget', 'objective', 'budget_usd', number_or_words],
  ['days', 'objective', 'deadline_s', seconds_or_words, value => typeof value === 'number' ? `${value / 86400} days` : value],
  ['price', 'objective', 'price', String],
];

function powers(least, most) {
  const counts = [];
  for (let count = Math.max(1, least || 1); count < most; count *= 2) counts.push(count);
  return [...counts, Math.max(1, most || 1)];
}

// Says what people write that JSON does not have, or "".
function what_json_lacks(text) {
  const bare = text.replace(/"(?:[^"\\]|\\.)*"/g, '""');
  if (/\/\/|\/\*|^\s*#/m.test(bare)) return ' JSON has no comments: take them out.';
  if (/,\s*[}\]]/.test(bare)) return ' JSON has no comma before } or ]: take it out.';
  return /'/.test(bare) ? ' JSON has double quotes alone.' : '';
}

const as_list = value => Array.isArray(value) ? value : value === undefined ? [] : [value];

export class Form {
  #job = {};
  #changed;

  // `changed` is called with the job whenever the reader has changed it.
  constructor(changed) {
    this.#changed = changed;
  }

  async fill_choices() {
    const {models, machine_facts, frameworks} = await list();
    element('model').append(...models.map(name => option(name)), option(pasted, 'another: paste its config.json or own.model.json'));
    element('framework').append(...frameworks.map(name => option(name)));
    element('machines').append(...machine_facts.map(facts => this.#machine(facts)));
    this.#keep_one_stop();
    this.#listen();
  }

  get job() {
    return structuredClone(this.#job);
  }

  show(job) {
    this.#job = structuredClone(job);
    const is_known = typeof job.model === 'string';
    element('model').value = is_known ? job.model : pasted;
    if (is_known && element('model').value !== job.model) element('model').selectedIndex = -1;
    element('pasted').hidden = is_known;
    element('config').setCustomValidity('');
    element('config').value = is_known ? '' : JSON.stringify(job.model ?? {}, null, 2);
    for (const [id, section, key, , show = String] of simple) {
      const value = job[section]?.[key];
      element(id).value = value === undefined || value === null || value === 'auto' ? '' : show(value);
    }
    if (!element('minimize').value) element('minimize').value = 'step_time';
    element('failures').checked = job.failures !== undefined;
    this.#show_machines();
    this.#show_text();
  }

  #machine({name, gpus, gpu, memory_bytes, usd_per_hour}) {
    const label = document.createElement('label'), box = document.createElement('input');
    const facts = document.createElement('span');
    box.type = 'checkbox';
    box.value = name;
    facts.className = 'faint';
    facts.textContent = `${gpus} × ${gpu}, ${bytes(memory_bytes)}` + (usd_per_hour === null ? '' : `, ${usd(usd_per_hour)}/h`);
    label.append(box, name, facts);
    return label;
  }

  // The list of machines is one stop of the Tab key; arrows, Home and End go through it.
  #keep_one_stop() {
    const all = element('machines');
    const boxes = () => [...all.querySelectorAll('input')].filter(box => !box.parentElement.hidden);
    const stop_at = wanted => {
      for (const box of all.querySelectorAll('input')) box.tabIndex = box === wanted ? 0 : -1;
    };
    stop_at(boxes()[0]);
    all.addEventListener('focusin', event => stop_at(event.target));
    all.addEventListener('keydown', event => {
      const shown = boxes(), at = shown.indexOf(document.activeElement);
      const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1}[event.key];
      if (to === undefined || at < 0) return;
      event.preventDefault();
      shown[Math.max(0, Math.min(to, shown.length - 1))]?.focus();
    });
    element('filter').addEventListener('input', () => stop_at(boxes()[0]));
  }

  #show_machines() {
    const chosen = as_list(this.#job.cluster?.machine ?? this.#job.instance_type?.replace(/^ml\./, ''));
    const counts = as_list(this.#job.cluster?.count ?? this.#job.instance_count ?? 1).filter(Number.isInteger);
    const boxes = [...element('machines').querySelectorAll('input')];
    for (const box of boxes) box.checked = chosen.includes(box.value);
    element('machines').prepend(...boxes.filter(box => box.checked).map(box => box.parentElement));
    element('chosen').textContent = chosen.length ? chosen.join(', ') : 'none yet';
    element('least').value = counts.length ? Math.min(...counts) : '';
    element('most').value = counts.length ? Math.max(...counts) : '';
  }

  #show_text() {
    element('json').value = JSON.stringify(this.#job, null, 2);
  }

  #set(section, key, value) {
    const whole = {...this.#job[section]};
    if (value === undefined) delete whole[key];
    else whole[key] = value;
    this.#job[section] = whole;
    if (Object.keys(whole).length === 0) delete this.#job[section];
  }

  #tell() {
    this.#show_text();
    this.#changed(this.job);
  }

  #on(id, event, act) {
    element(id).addEventListener(event, () => {
      act();
      this.#tell();
    });
  }

  #listen() {
    this.#on('model', 'change', () => {
      const is_known = element('model').value !== pasted;
      element('pasted').hidden = is_known;
      element('config').setCustomValidity('');
      this.#job.model = is_known ? element('model').value : this.#config();
    });
    this.#on('config', 'input', () => this.#job.model = this.#config());
    for (const [id, section, key, read] of simple)
      this.#on(id, 'change', () => {
        const text = element(id).value;
        this.#set(section, key, text === '' ? undefined : read(text));
      });
    this.#on('failures', 'change', () => {
      if (element('failures').checked) this.#job.failures = {};
      else delete this.#job.failures;
    });
    this.#on('machines', 'change', () => {
      const boxes = [...element('machines').querySelectorAll('input:checked')];
      this.#set_cluster('machine', boxes.map(box => box.value));
      this.#show_machines();
    });
    for (const id of ['least', 'most'])
      this.#on(id, 'change', () => this.#set_cluster(
          'count', powers(Number(element('least').value), Number(element('most').value))));
    element('filter').addEventListener('input', () => {
      const wanted = element('filter').value.trim().toLowerCase();
      for (const label of element('machines').children)
        label.hidden = !label.textContent.toLowerCase().includes(wanted);
    });
    element('take').addEventListener('click', () => this.#take_text());
  }

  #config() {
    const text = element('config');
    try {
      text.setCustomValidity('');
      return JSON.parse(text.value);
    } catch (error) {
      text.setCustomValidity(`This is no JSON: ${error.message}.${what_json_lacks(text.value)}`);
      return {};
    }
  }

  #set_cluster(key, value) {
    if (this.#job.instance_type !== undefined) {
      this.#set('cluster', 'machine', as_list(this.#job.instance_type));
      this.#set('cluster', 'count', as_list(this.#job.instance_count ?? 1));
      delete this.#job.instance_type;
      delete this.#job.instance_count;
    }
    this.#set('cluster', key, value);
  }

  // True when what the reader has written is a job, which it then is.
  is_complete() {
    const is_text_new = element('json').value !== JSON.stringify(this.#job, null, 2);
    return (!is_text_new || this.#take_text()) && element('job').reportValidity();
  }

  #take_text() {
    const text = element('json');
    try {
      const job = JSON.parse(text.value);
      if (typeof job !== 'object' || job === null || Array.isArray(job)) throw new Error('a job is an object');
      text.setCustomValidity('');
      this.show(job);
      this.#changed(this.job);
      return true;
    } catch (error) {
      element('text').open = true;
      text.setCustomValidity(`This is no job: ${error.message}.${what_json_lacks(text.value)}`);
      text.reportValidity();
      text.addEventListener('input', () => text.setCustomValidity(''), {once: true});
      return false;
    }
  }
}
