// Declares the options of the command line: one set for all commands, of which each command takes
// some. What the session understands is in its requests (session/requests.h).
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
  std::vector<std::string> operands;        // JOB, FILES, or what to list
  std::map<std::string, std::string> jobs;  // the texts of operands that are not files, by name
  bool json = false;
  bool wide = false;                    // lines as long as they are, tables with all columns
  bool why = false;                     // plan: every reason for which plans were rejected
  bool all = false;                     // advise: every rung of every machine
  std::string trace;                    // file for the timeline
  std::string write;                    // plan: file for the settled job
  std::string write_partition;          // plan: file for the stages of the modules
  std::string report;                   // file for the HTML page
  std::string programs;                 // simulate: file of the Programs to take
  std::string timeline;                 // simulate: file for what the page's timeline draws
  std::string host = "127.0.0.1";       // serve: the address to listen at
  int port = 8080;                      // serve: 0 is any free one
  std::string log_json;                 // train
  std::string output;                   // tokenize: the token file; fit: the profile
  std::string measured;                 // explain: the trace of a trained step
  std::string recording;                // rehearse: file of a recorded step
  std::string summary;                  // rehearse: file of what the step did, as counts
  bool rehearse = false;                // advise: climb by running the script
  std::optional<double> host_factor;    // rehearse: on the host's time
  std::optional<double> imbalance;      // rehearse: tokens of the fullest expert by the mean
  bool write_through = false;           // rehearse: the script's files go where it writes them
  std::string models;                   // serve, mcp: folder of models that jobs may name
  std::string runs;                     // fit: the file of measured steps
  std::string tokenizer;                // tokenize, generate: a tokenizer.json
  std::vector<std::string> data;        // evaluate: files in place of the job's
  std::string prompt;                   // generate: a text
  std::string prompt_tokens;            // generate: numbers, "1,2,3"
  std::optional<int> max_tokens;        // generate
  std::optional<double> temperature;    // generate
  std::optional<int> top_k;             // generate
  std::optional<int> seed;              // generate
  std::string text_key;                 // tokenize: the key of a document's text in a .jsonl file
  std::string separator;                // tokenize: token between documents
  std::vector<std::string> define;      // import: variables of a script, NAME=VALUE
  std::vector<std::string> from;        // import: files of settings; a folder with safetensors
  std::string to;                       // export: folder
  std::string format;                   // import: the framework whose settings these are
  std::vector<std::string> launchers;   // export
  bool allow_unknown = false;           // import: list unknown settings
  std::string dump;                     // compile: folder for the graph after each pass
  bool cpu = false;                     // calibrate: the processor, whatever GPUs there are
  bool quick = false;                   // calibrate: measure for some seconds only
  bool measure = false;                 // compile: run steps on this computer
  std::string checkpoint;               // one checkpoint, or the folder of a run
  bool adapter = false;                 // export: the adapter alone
  bool ema = false;                     // export: the average of the weights
  std::string trace_format;             // a word of trace_format_names(); empty: the first
  std::optional<int> ranks;             // calibrate: processes measured together
  std::optional<int> top;               // plan: plans shown
  std::optional<int> time_limit;        // seconds that a call may take
  bool prove = false;                   // plan
  bool dry_run = false;                 // launch: predict, start nothing
  std::optional<double> memory_margin;  // plan, advise, scale: memory that plans leave free
  bool as_rank = false;     // train: this process is one of the ranks (set by the launcher)
  std::string run_name;     // train: how `ps` tells the ranks of one run from others
  std::string rank_result;  // calibrate: where rank 0 writes what it measured
  bool progress = false;    // train: the launcher's standard error is a terminal

  // Read from the environment, in options_from_environment() (command_line.cpp), like
  // local_profile, threads, sagemaker and today of the requests.
  std::optional<int> mpi_ranks;  // inside an mpirun: its size
  std::string program;           // path of this executable
};

// The formats of --trace-format: `chrome` writes one file, `chakra` writes PREFIX.RANK.et for every
// rank. The names are in the order of the enumerators.
enum class TraceFormat : std::uint8_t { chrome, chakra };
const std::vector<std::string>& trace_format_names();

// A command of the program. Its code and its row are in a file of tools/commands/.
struct Command {
  const char* name;
  const char* operand;  // as the help shows it; "" for none
  const char* operand_help;
  const char* summary;
  const char* options;  // the names of the options it takes, separated by blanks
  int (*run)(const Options& options);
  const char* details = "";  // for its help and the manual: plain sentences, `code` in backticks
  // Returns what the command prints with --json. Null if it has no such option.
  std::string (*answer)(const Options& options, const Watch& watch) = nullptr;
  // Returns the words that its operand may be. Null if it may be others too.
  std::vector<std::string> (*words)() = nullptr;
};

// Parses the arguments after the command's name into `options`. Returns false if help was asked for
// and has been printed. Throws InputError for a wrong option, with the nearest known one if there
// is one.
bool parse_options(const Command& command, const std::vector<std::string>& arguments,
                   Options& options);

// Sets an option by its name ("top") from the texts of its values; a flag has none. Throws
// InputError, as parse_options() does.
void set_option(const Command& command, const std::string& name,
                const std::vector<std::string>& values, Options& options);

// Returns the words of a command line that sets the options of `command` as `options` has them. It
// has no operands, and none of the options that only the launcher sets.
std::vector<std::string> command_words(const Command& command, const Options& options);

// An option of a command, as its help lists it.
struct OptionName {
  std::string name;   // "--set"
  std::string value;  // "KEY=VALUE", "FILE", ...; empty: it takes none
  std::string help;
  std::vector<std::string> words;  // that the value may be; empty: it may be others too
};
std::vector<OptionName> options_of(const Command& command);

}  // namespace meshwright::tools
