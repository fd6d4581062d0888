# Completion of holdfast-c++ for fish: the compiler itself says what there is, ours and Clang's.
complete -c holdfast-c++ -n 'string match -q -- "-*" (commandline -ct)' -f \
  -a '(holdfast-c++ --autocomplete=(commandline -ct) 2>/dev/null)'
