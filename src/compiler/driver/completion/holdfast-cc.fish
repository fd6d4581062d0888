# Completion of holdfast-cc for fish: the compiler itself says what there is, ours and Clang's.
complete -c holdfast-cc -n 'string match -q -- "-*" (commandline -ct)' -f \
  -a '(holdfast-cc --autocomplete=(commandline -ct) 2>/dev/null)'
