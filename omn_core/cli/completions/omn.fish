# fish completion for omn: omn itself is asked what could stand where the cursor is.
function __omn_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l place (contains -i -- -- $words[2..-2])
    if test -n "$place"; and test "$words[2]" != completion
        # Everything behind it is the program's command line.
        complete -C (string join -- ' ' (string escape -- $words[(math $place + 2)..-2]) $words[-1])
        return
    end
    for line in ($words[1] completion fish -- $words[2..-1] 2>/dev/null)
        set -l part (string split -m 2 \t -- $line)
        switch $part[1]
            case plain
                printf '%s\t%s\n' $part[2] $part[3]
            case file
                __fish_complete_path $words[-1]
            case dir
                __fish_complete_directories $words[-1]
        end
    end
end
complete -c omn -f -a '(__omn_complete)'
