// Declares the options of the command line. There is one set for all commands, and each command
// takes some of it. The options that the session uses are in its requests (session/requests.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/session/requests.h"
#include "tools/session/watch.h"

namespace meshwright::tools {

struct Options : JobRequest, TrainRequest {
  std::string command;
  std::vector<std::string> operands;        // words that are not options: JOB, FILES, ...
  std::map<std::string, std::string> jobs;  // the contents of operands that are not files, by name
  bool json = false;
  bool wide = false;                    // lines are not wrapped, and tables have all columns
  bool why = false;                     // plan: show every reason why plans were rejected
  bool all = false;                     // advise: search every machine and show every rung
  std::string trace;                    // file for the timeline
  std::string write;                    // file for the resolved job; rehearse: the recorded step
  std::string write_partition;          // plan: file with the stage of every module
  std::string report;                   // file for the HTML page
  std::string programs;                 // simulate: file of the Programs to predict
  std::string timeline;                 // simulate: file for the data of the page's timeline
  std::string host = "127.0.0.1";       // serve: the address to listen at
  int port = 8080;                      // serve: 0 is any free one
  std::string log_json;                 // train: file for one JSON line per step
  std::string output;                   // tokenize: the token file; fit: the profile
  std::string measured;                 // explain: the trace of a trained step
  std::string recording;                // file of a recorded step
  std::string summary;                  // rehearse: file for what the step did, as counts
  bool rehearse = false;                // advise: run the script at each number of ranks
  std::optional<double> host_factor;    // rehearse, advise: multiplies the host's time
  std::optional<double> imbalance;      // rehearse: tokens of the most loaded expert / mean
  bool write_through = false;           // rehearse: the script's files are not redirected
  std::string models;                   // folder of model files that jobs may name
  std::string runs;                     // fit: the file of measured steps
  std::string tokenizer;                // file of a tokenizer.json
  std::vector<std::string> data;        // evaluate: files that replace the job's
  std::string prompt;                   // generate: a text
  std::string prompt_tokens;            // generate: the numbers of tokens, "1,2,3"
  std::optional<int> max_tokens;        // generate
  std::optional<double> temperature;    // generate
  std::optional<int> top_k;             // generate
  std::optional<int> seed;              // generate
  std::string text_key;                 // tokenize: the key of a document's text in a .jsonl file
  std::string separator;                // tokenize: token between documents
  std::vector<std::string> define;      // import: variables of a script, NAME=VALUE
  std::vector<std::string> from;        // import: files of settings or weights, or a folder
  std::string to;                       // folder to write
  std::string format;                   // import: the framework whose settings these are
  std::vector<std::string> launchers;   // export: names of launchers
  bool allow_unknown = false;           // import: list unknown settings
  std::string dump;                     // compile: folder for the graph after each pass
  bool cpu = false;                     // calibrate: the processor, whatever GPUs there are
  bool quick = false;                   // calibrate: measure for some seconds only
  bool measure = false;                 // compile: run steps on this computer
  std::string checkpoint;               // one checkpoint, or the folder of a run
  bool adapter = false;                 // export-weights: write only the adapter
  bool ema = false;                     // export-weights: write the average of the weights
  std::string trace_format;             // a word of trace_format_names(); empty: `chrome`
  std::optional<int> ranks;             // calibrate: processes measured together
  std::optional<int> top;               // plan: how many plans to show
  std::optional<int> time_limit;        // limit of a call, or of a script without a step, in s
  bool prove = false;                   // plan: search until the best plan is proven
  bool dry_run = false;                 // launch: predict, and start nothing
  std::optional<double> memory_margin;  // share of a GPU's memory that plans leave free
  bool as_rank = false;     // train: this process is one of the ranks (set by the launcher)
  std::string run_name;     // train: how `ps` tells the ranks of one run from others
  std::string rank_result;  // calibrate: file for what rank 0 measured
  bool progress = false;    // train: the launcher's standard error is a terminal

  // The options from here on are read from the environment by options_from_environment()
  // (command_line.cpp), as are local_profile, threads, sagemaker and today of the requests.
  std::optional<int> mpi_ranks;  // number of ranks of the mpirun around this process
  std::string program;           // path of this executable
};

// Names the formats of --trace-format, in the order of the enumerators: `chrome` writes one file,
// and `chakra` writes PREFIX.RANK.et for every rank.
enum class TraceFormat : std::uint8_t { chrome, chakra };
const std::vector<std::string>& trace_format_names();

// Describes a command of the program. Its code and its row are in a file of tools/commands/.
struct Command {
  const char* name;
  const char* operand;  // as the help shows it; "" for none
  const char* operand_help;
  const char* summary;
  const char* options;  // the names of the options it takes, separated by blanks
  int (*run)(const Options& options);
  const char* details = "";  // for its help and the manual: plain sentences, `code` in backticks
  // Returns what the command prints with --json. It is null if no other program can call the
  // command.
  std::string (*answer)(const Options& options, const Watch& watch) = nullptr;
  // Returns the words that the operand may be. It is null if other operands are allowed too.
  std::vector<std::string> (*words)() = nullptr;
};

// Parses the arguments after the command's name into `options`. Returns false if help was asked for
// and has been printed. Throws InputError for an unknown option, with the nearest known one if
// there is one, for an option with a wrong value, and for an operand if the command takes none.
bool parse_options(const Command& command, const std::vector<std::string>& arguments,
                   Options& options);

// Sets an option by its name without dashes ("top") from the texts of its values. A flag has no
// values. Throws InputError for an unknown option or a wrong value. The option `port`, and those
// that only the launcher sets, cannot be set by this function.
void set_option(const Command& command, const std::string& name,
                const std::vector<std::string>& values, Options& options);

// Returns the words of a command line that sets those options of `command` that differ from their
// defaults in `options`. The words have no operands, and no option that only the launcher sets.
std::vector<std::string> command_words(const Command& command, const Options& options);

// Describes an option of a command, as the command's help lists it.
struct OptionName {
  std::string name;   // "--set"
  std::string value;  // "KEY=VALUE", "FILE", ...; empty for a flag
  std::string help;
  std::vector<std::string> words;  // all words that the value may be; empty: any value
};
std::vector<OptionName> options_of(const Command& command);

}  // namespace meshwright::tools
